"""The settings of the user's client: Sentinel, cluster, users, TLS, a socket, the older protocol."""

import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from redis_lock_client import LockRefused
from servers import eventually, node_of

KEY = "lock:orders:42"
USER = {"username": "application", "password": "secret"}


def use(world, client, home, locks=None):
    """Holds and waits, also when all connections are closed meanwhile. `home` is the server that has the lock."""
    locks = locks or world.locks(client, name="test", lease=2.0)
    got = []

    def other():
        with locks.lock(KEY, wait=30) as grant:
            grant.check()
            got.append(grant)

    with locks.lock(KEY, wait=5) as grant:
        waiting = threading.Thread(target=other, daemon=True)
        waiting.start()
        home.wait_for_waiters(KEY, 1)
        home.redis.client_kill_filter(_type="normal", skipme=True)
        eventually(lambda: home.sessions()[0]["client-id"], "the session to be polled again")
        home.wait_for_waiters(KEY, 1)
        grant.check()
    waiting.join(30)
    assert got
    locks.close()
    assert home.info(KEY) is None


@pytest.mark.parametrize("protocol", [2, 3])
def test_protocols_and_databases(world, server, protocol):
    client = world.client(server.port, protocol=protocol, db=0, decode_responses=True, health_check_interval=1)
    use(world, client, server)


def test_a_user_has_the_rights_that_the_documents_name(world, server):
    server.order("user", name="application")
    use(world, world.client(server.port, client_name="orders", **USER), server)
    assert server.refused() == []


def test_a_pool_that_waits(world, server):
    pool = world.redis.BlockingConnectionPool(port=server.port, max_connections=1)
    use(world, world.redis.Redis(connection_pool=pool), server)


def test_sentinels(world, sentinels):
    if world.name == "threads":
        from redis.sentinel import Sentinel
    else:
        from redis.asyncio.sentinel import Sentinel
    client = Sentinel([("127.0.0.1", sentinels.sentinel.port)]).master_for("lock")
    use(world, client, sentinels.primary)  # the common trial kills the primary


def test_a_cluster(world, cluster):
    if world.name == "threads":
        from redis.cluster import RedisCluster
    else:
        from redis.asyncio.cluster import RedisCluster
    locks = world.locks(RedisCluster(host="127.0.0.1", port=cluster[0].port), name="test", lease=2.0)
    keys = [next(key for key in map(str, range(100)) if node_of(cluster, key) is node) for node in cluster]
    with locks.lock_all(keys, wait=5) as grants:
        for grant, key in zip(grants, sorted(keys)):
            assert node_of(cluster, key).session_of(key)
            grant.check()
    use(world, None, node_of(cluster, KEY), locks)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def tls(server, certificate):
    """The port of a proxy that ends TLS, as the test bed's servers have none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    listening = socket.create_server(("127.0.0.1", 0))

    def pass_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def serve(raw):
        try:
            near = context.wrap_socket(raw, server_side=True)
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", server.port))
        threading.Thread(target=pass_on, args=(far, near), daemon=True).start()
        pass_on(near, far)

    def accept():
        try:
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
        except OSError:
            pass

    threading.Thread(target=accept, daemon=True).start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def test_tls(world, server, tls, certificate):
    client = world.client(tls, host="127.0.0.1", ssl=True, ssl_ca_certs=str(certificate / "cert.pem"))
    use(world, None, server, world.locks(client, lease=5.0, reply=5.0))
    locks = world.locks(world.client(tls, host="127.0.0.1", ssl=True), reply=5.0)
    with pytest.raises(LockRefused, match="(?i)certificate"):
        locks.lock(KEY, wait=5)
    locks.close()


def test_a_socket(world, start, tmp_path):
    from servers import Server

    path = str(tmp_path / "redis")
    server = Server(start("server", config={"unixsocket": path}))
    use(world, world.redis.Redis(unix_socket_path=path), server)
