//! A connection that the proxy cuts, in a request, in a reply, or nowhere.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use testbed::{Cut, Proxy};

/// The parts of "question" and "answered" that the server and the client got, and how many replies were lost.
fn talk(cut: Option<Cut>) -> (String, String, usize) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let proxy = Proxy::start(listener.local_addr().expect("an address").port());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut got = vec![0; 8];
        let count = stream.read(&mut got).expect("a request");
        let _ = stream.write_all(b"answered");
        got.truncate(count);
        String::from_utf8(got).expect("text")
    });
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("a proxy");
    if let Some(cut) = cut {
        while !proxy.cut(0, cut) {
            thread::yield_now();
        }
    }
    client.write_all(b"question").expect("a proxy");
    let mut got = String::new();
    let mut answer = client.take(8);
    let _ = answer.read_to_string(&mut got);
    let server = server.join().expect("a server");
    (server, got, proxy.lost())
}

#[test]
fn a_cut_loses_the_second_half() {
    let told = |a: &str, b: &str, lost: usize| (a.to_owned(), b.to_owned(), lost);
    assert_eq!(talk(None), told("question", "answered", 0));
    // Often, for the answer to half a request is quick.
    for _ in 0..200 {
        assert_eq!(talk(Some(Cut::Request)), told("ques", "", 0));
    }
    assert_eq!(talk(Some(Cut::Reply)), told("question", "answ", 1));
}

#[test]
fn half_open_tells_the_server_nothing() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let proxy = Proxy::start(listener.local_addr().expect("an address").port());
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("a proxy");
    let (mut server, _) = listener.accept().expect("a client");
    while !proxy.cut(0, Cut::Neither) {
        thread::yield_now();
    }
    client.write_all(b"question").expect("a proxy");
    server.write_all(b"answered").expect("a proxy");
    assert_eq!(client.read_to_end(&mut Vec::new()).expect("its end"), 0);
    let moment = Some(std::time::Duration::from_millis(50));
    server.set_read_timeout(moment).expect("a time limit");
    let silence = server.read(&mut [0; 8]).expect_err("nothing");
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
}
