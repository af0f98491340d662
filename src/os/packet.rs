//! Packets over a socket that keeps their bounds, with descriptors beside them.
//!
//! Invariant: a packet or a descriptor that was cut off is an error, never a shorter message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// The largest packet; a larger launch travels in a sealed file beside it.
pub const PACKET_BYTES_MAX: usize = 32 * 1024;
/// Most descriptors beside one packet.
pub const DESCRIPTORS_MAX: usize = 8;

/// What one packet brought.
#[derive(Debug)]
pub enum Received {
    /// Bytes and the descriptors beside them, all close-on-exec.
    Packet(usize, Vec<OwnedFd>),
    /// The other side is gone.
    End,
}

/// Sends one packet. Never blocks and never signals.
///
/// # Errors
/// The system's: `EAGAIN` where the other side does not read, `EPIPE` where it is gone, `EMSGSIZE`.
pub fn send(socket: impl AsFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(&socket, &[IoSlice::new(packet)], &mut beside, flags))?;
    Ok(())
}

/// Receives one packet into `buffer`. Whether it waits is the socket's own setting, or asked for by `flags`.
///
/// # Errors
/// The system's; `InvalidData` where a packet or its descriptors were cut off (a limit on open files, or a packet
/// longer than `buffer`): what came of it is closed.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let got = loop {
        match rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut beside, flags) {
            // The other side left without reading all of ours. Said once, and before what it had sent, which is still there.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            got => break got?,
        }
    };
    let descriptors: Vec<OwnedFd> = beside
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a packet or its descriptors were cut off: too large, or too many open files",
        ));
    }
    if got.bytes == 0 { Ok(Received::End) } else { Ok(Received::Packet(got.bytes, descriptors)) }
}
