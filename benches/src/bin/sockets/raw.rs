//! The floor: bytes over a bare socket.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;

/// A socket that is polled.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }

    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn receive(&mut self, mut room: &mut [u8]) -> Result<()> {
        while !room.is_empty() {
            match self.0.read(room) {
                Ok(0) => return Err(Error::from(ErrorKind::UnexpectedEof)),
                Ok(got) => room = &mut room[got..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
