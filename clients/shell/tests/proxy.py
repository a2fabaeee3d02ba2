"""Passes everything on to a server; but of the requests with all WORDS in them the first COUNT reach it
without their replies coming back: with `cut` their connections end, with `keep` they stay open, with
`silent` nothing at all is passed on any more. Prints its port.

usage: proxy.py SERVER_PORT cut|keep|silent "WORDS" COUNT
"""

import socket
import sys
import threading

server_port, what, left = int(sys.argv[1]), sys.argv[2], int(sys.argv[4])
words = sys.argv[3].encode().split()
silent = threading.Event()


def pass_on(client):
    global left
    with client, socket.create_connection(("127.0.0.1", server_port)) as server:
        hit = threading.Event()
        threading.Thread(target=replies, args=(server, client, hit), daemon=True).start()
        while request := client.recv(65536):
            if left and all(word in request for word in words):
                left -= 1
                hit.set()
            if not silent.is_set():
                server.sendall(request)


def replies(server, client, hit):
    while reply := server.recv(65536):
        if hit.is_set() and what == "cut":
            break
        if hit.is_set() and what == "silent":
            silent.set()
        if not hit.is_set() and not silent.is_set():
            client.sendall(reply)
    client.shutdown(socket.SHUT_RDWR)


def quietly(client):
    try:
        pass_on(client)
    except OSError:
        pass


with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()
