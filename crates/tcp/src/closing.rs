//! The end of an endpoint: its peers are told, and what was sent arrives.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use limic_fabric::Form;
use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use crate::connection::Stage;
use crate::fabric::TcpFabric;
use crate::record::{GOODBYE, HEADER};
use crate::sockets;

/// How long a wait for acknowledgements lasts: nothing tells of them.
const PAUSE: Duration = Duration::from_millis(1);

impl TcpFabric {
    /// Says goodbye to every peer, and waits until its machine has got that.
    ///
    /// A socket that is closed while bytes are there to be read breaks its connection, and with it
    /// what is on its way to the peer: so what comes is read, and thrown away.
    pub(crate) fn say_goodbye(&mut self, within: Duration) {
        let until = Instant::now() + within;
        if let Some(listener) = self.listener.take() {
            self.close_socket(listener);
        }
        // Each with whether its writing end is shut.
        let mut left: Vec<(u32, bool)> = Vec::new();
        for (number, connection) in &mut self.connections {
            // A peer that has not answered yet finds the goodbye behind the greeting. In the midst
            // of a long message nothing can be said.
            let hears = matches!(connection.stage, Stage::Ready | Stage::Greeted { .. });
            if hears && connection.to_go == 0 {
                let (kind, tag, len) = (GOODBYE, 0, 0);
                let room = connection.out.add(HEADER);
                room.copy_from_slice(&Form { kind, tag, len }.to_header());
                connection.corked = false;
                left.push((*number, false));
            }
        }
        loop {
            left.retain_mut(|(number, shut)| !self.has_left(*number, shut));
            if left.is_empty() || Instant::now() >= until {
                break;
            }
            let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; 8];
            let pause = Timespec::try_from(PAUSE).unwrap_or_default();
            let _ = epoll::wait(&self.events_set, &mut ready[..], Some(&pause));
        }
        while let Some((number, _)) = self.connections.first_key_value() {
            self.end(*number);
        }
    }

    /// Whether nothing is on its way to a peer any more.
    fn has_left(&mut self, number: u32, shut: &mut bool) -> bool {
        self.flush(number);
        let Some(connection) = self.connection(number) else {
            return true;
        };
        let Some(socket) = &connection.socket else {
            return true;
        };
        if !drain(socket) || connection.broken.is_some() {
            return true;
        }
        if !connection.out.is_empty() {
            return false;
        }
        if !core::mem::replace(shut, true) {
            // It fails only for a connection that has ended.
            let _ = shutdown(socket, Shutdown::Write);
        }
        !sockets::is_under_way(socket.as_fd())
    }
}

/// Throws away what has come. False: the connection has ended.
fn drain(socket: &OwnedFd) -> bool {
    let mut thrown = [0; 16 << 10];
    for _ in 0..64 {
        match recv(socket, &mut thrown, RecvFlags::empty()) {
            Ok((_, 0)) => return false,
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        }
    }
    true
}
