//! Two processes without a launcher: the second is a child of the first, and each gets the other's
//! address through a pipe.
//!
//! `target/debug/examples/own_bootstrap`

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};
use std::process::{Command, Stdio};

use limic::{ADDRESS_LEN, Endpoint, HybridEndpoint};

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().any(|word| word == "child") {
        child()
    } else {
        parent()
    }
}

fn parent() -> Result<(), Box<dyn Error>> {
    let endpoint = HybridEndpoint::open()?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the child has no pipes".into());
    };
    to.write_all(&endpoint.address().to_bytes())?;
    let mut address = [0; ADDRESS_LEN];
    from.read_exact(&mut address)?;

    // From here on the pipes are not needed.
    let peer = endpoint.connect(&address)?;
    endpoint.send(peer, 7, b"hello, child")?;
    let mut answer = [0; 64];
    let status = endpoint.recv((peer, 7), &mut answer)?;
    let answer = &answer[..status.len as usize];
    println!("the child answers: {}", String::from_utf8_lossy(answer));
    assert_eq!(answer, b"HELLO, CHILD");
    assert!(child.wait()?.success());
    Ok(())
}

fn child() -> Result<(), Box<dyn Error>> {
    let endpoint = HybridEndpoint::open()?;
    let mut address = [0; ADDRESS_LEN];
    stdin().read_exact(&mut address)?;
    stdout().write_all(&endpoint.address().to_bytes())?;
    stdout().flush()?;

    let peer = endpoint.connect(&address)?;
    let mut text = [0; 64];
    let status = endpoint.recv((peer, 7), &mut text)?;
    text.make_ascii_uppercase();
    endpoint.send(peer, 7, &text[..status.len as usize])?;
    Ok(())
}
