//! Programs that must not compile: each stands beside the one that differs from it only in being
//! right.
//!
//! The buffer of a scoped receive cannot be looked at while the receive is pending:
//!
//! ```compile_fail,E0502
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn peek(endpoint: &ShmEndpoint, from: Peer) -> limic::Result<u8> {
//!     let mut buffer = [0; 8];
//!     endpoint.scope(|scope| {
//!         let receive = scope.irecv((from, 1_u64), &mut buffer)?;
//!         let first = buffer[0]; // the endpoint may be writing here
//!         receive.wait()?;
//!         Ok(first)
//!     })
//! }
//! ```
//! ```
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn peek(endpoint: &ShmEndpoint, from: Peer) -> limic::Result<u8> {
//!     let mut buffer = [0; 8];
//!     endpoint.scope(|scope| {
//!         let receive = scope.irecv((from, 1_u64), &mut buffer)?;
//!         let (_, filled) = receive.wait()?;
//!         Ok(filled[0])
//!     })
//! }
//! ```
//!
//! The data of a scoped send cannot be changed before the scope ends:
//!
//! ```compile_fail,E0506
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn change(endpoint: &ShmEndpoint, to: Peer) -> limic::Result<()> {
//!     let mut data = [0; 8];
//!     endpoint.scope(|scope| {
//!         scope.isend(to, 1_u64, &data)?;
//!         data[0] = 1;
//!         Ok(())
//!     })
//! }
//! ```
//! ```
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn change(endpoint: &ShmEndpoint, to: Peer) -> limic::Result<()> {
//!     let mut data = [0; 8];
//!     endpoint.scope(|scope| {
//!         scope.isend(to, 1_u64, &data)?;
//!         Ok(())
//!     })?;
//!     data[0] = 1;
//!     Ok(())
//! }
//! ```
//!
//! A buffer that ends with the scope's body is too short-lived for the scope:
//!
//! ```compile_fail,E0597
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn inside(endpoint: &ShmEndpoint, from: Peer) -> limic::Result<()> {
//!     endpoint.scope(|scope| {
//!         let mut buffer = vec![0; 8];
//!         scope.irecv((from, 1_u64), &mut buffer)?;
//!         Ok(())
//!     })
//! }
//! ```
//! ```
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn inside(endpoint: &ShmEndpoint, from: Peer) -> limic::Result<()> {
//!     let mut buffer = vec![0; 8];
//!     endpoint.scope(|scope| {
//!         scope.irecv((from, 1_u64), &mut buffer)?;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! A handle does not get out of its scope:
//!
//! ```compile_fail
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn escape(endpoint: &ShmEndpoint, to: Peer, data: &[u8]) -> limic::Result<()> {
//!     let send = endpoint.scope(|scope| scope.isend(to, 1_u64, data))?;
//!     send.wait().map(|_| ())
//! }
//! ```
//! ```
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn escape(endpoint: &ShmEndpoint, to: Peer, data: &[u8]) -> limic::Result<()> {
//!     endpoint.scope(|scope| scope.isend(to, 1_u64, data)?.wait().map(|_| ()))
//! }
//! ```
//!
//! Two threads cannot use one endpoint; it can only move from one to the other:
//!
//! ```compile_fail,E0277
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn share(endpoint: ShmEndpoint, to: Peer) {
//!     std::thread::scope(|threads| {
//!         threads.spawn(|| endpoint.send(to, 1_u64, &[]).is_ok());
//!     });
//! }
//! ```
//! ```
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn share(endpoint: ShmEndpoint, to: Peer) {
//!     std::thread::scope(|threads| {
//!         threads.spawn(move || endpoint.send(to, 1_u64, &[]).is_ok());
//!     });
//! }
//! ```
//!
//! A loan is gone once it is sent:
//!
//! ```compile_fail,E0382
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn twice(endpoint: &ShmEndpoint, to: Peer) -> limic::Result<()> {
//!     let mut loan = endpoint.loan(8)?;
//!     loan.send(to, 1_u64)?;
//!     loan[0] = 1;
//!     Ok(())
//! }
//! ```
//! ```
//! # use limic::{Endpoint, Peer, ShmEndpoint};
//! fn twice(endpoint: &ShmEndpoint, to: Peer) -> limic::Result<()> {
//!     let mut loan = endpoint.loan(8)?;
//!     loan[0] = 1;
//!     loan.send(to, 1_u64)
//! }
//! ```
//!
//! The bytes of a loan that was received can be read, and not written:
//!
//! ```compile_fail,E0599
//! fn write(loaned: &limic::Loaned) {
//!     loaned.bytes()[0].store(1, std::sync::atomic::Ordering::Relaxed);
//! }
//! ```
//! ```
//! fn read(loaned: &limic::Loaned) -> u8 {
//!     loaned.bytes()[0].load()
//! }
//! ```
