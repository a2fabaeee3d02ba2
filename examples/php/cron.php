<?php
// A job that cron starts on several machines at the same minute: one of them does it.
require __DIR__ . '/../../clients/php/RedisLock.php';

use RedisLock\Busy;
use RedisLock\Locks;

$server = parse_url(getenv('REDIS_URL') ?: 'redis://127.0.0.1:6379');
$redis = new Redis();
$redis->connect($server['host'], $server['port'], 1.0);
$locks = new Locks($redis, service: 'report');

try {
    // The clocks of the machines differ. So the lock is not released: it stays for its lease, after which all have started.
    $grant = $locks->lock('lock:report', lease: 60);
    $redis->incr('reports');
    echo "done\n";
} catch (Busy) {
    fwrite(STDERR, "another machine does it\n");
    exit(1);
}
