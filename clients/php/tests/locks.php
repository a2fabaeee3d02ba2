<?php

/** The class with fixed leases. */

declare(strict_types=1);

require __DIR__.'/../RedisLock.php';
require __DIR__.'/testbed.php';

use RedisLock\Busy;
use RedisLock\Locks;
use RedisLock\Lost;
use RedisLock\Misuse;
use RedisLock\Refused;
use RedisLock\Unavailable;

const NAME = 'lock:orders:42';

function client(int $port): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', $port, 1.0);

    return $redis;
}

function locks(int $port): Locks
{
    return new Locks(fn () => client($port), 'test');
}

function holders(int $port): int
{
    return count(client($port)->rawCommand('LOCK.HOLDERS', NAME));
}

function in_line(int $port): bool
{
    return 1 === count(client($port)->rawCommand('LOCK.WAITERS', NAME));
}

function test_a_lock_from_lock_to_release(int $port): void
{
    $grant = locks($port)->lock(NAME, lease: 10);
    check(str_starts_with($grant->owner, 'test:'.gethostname().':'.getmypid().':'), $grant->owner);
    same('OK', client($port)->rawCommand('LOCK.FENCE', NAME, (string) $grant->token) ? 'OK' : 'no');
    throws(Busy::class, fn () => locks($port)->lock(NAME, lease: 10));
    $begin = microtime(true);
    throws(Busy::class, fn () => locks($port)->lock(NAME, lease: 10, wait: 0.3));
    check(microtime(true) - $begin >= 0.3, 'the wait');
    $grant->check();
    check($grant->remaining() > 8, 'what is known');
    $grant->extend(60);
    check($grant->remaining() > 55, 'the new lease');
    $grant->release();
    throws(Misuse::class, fn () => $grant->release());
    throws(Misuse::class, fn () => $grant->check());
    same([0.0, 0], [$grant->remaining(), holders($port)]);
    throws(Misuse::class, fn () => locks($port)->lock(NAME, lease: 0));
}

function test_the_time_limit_of_the_user_s_own_calls_stays(int $port): void
{
    $redis = client($port);
    (new Locks($redis))->lock(NAME, lease: 10)->release();
    check(!$redis->blPop('nothing', 1), 'nothing'); // throws at once with a limit of zero
    $redis->setOption(Redis::OPT_READ_TIMEOUT, '7');
    (new Locks($redis))->lock(NAME, lease: 10)->release();
    same(7.0, (float) $redis->getOption(Redis::OPT_READ_TIMEOUT));
}

function test_waiters_are_served_in_order(int $port): void
{
    $grant = locks($port)->lock(NAME, lease: 30);
    $other = aside(function () use ($port) {
        $mine = locks($port)->lock(NAME, lease: 30, wait: 20);
        check($mine->remaining() > 28, 'a whole lease');
        $mine->release();
    });
    eventually(fn () => in_line($port), 'a call in line');
    $grant->release();
    $other();
    same(0, holders($port));
}

function test_readers_and_permits(int $port): void
{
    $locks = locks($port);
    $readers = [$locks->shared(NAME, lease: 10), $locks->shared(NAME, lease: 10)];
    throws(Busy::class, fn () => $locks->lock(NAME, lease: 10));
    foreach ($readers as $reader) {
        $reader->release();
    }
    $permits = [$locks->permit(NAME, 2, lease: 10), $locks->permit(NAME, 2, lease: 10)];
    throws(Busy::class, fn () => $locks->permit(NAME, 2, lease: 10));
    check($permits[0]->owner !== $permits[1]->owner, 'two owners');
    throws(Misuse::class, fn () => $locks->permit(NAME, 0, lease: 10));
}

function test_a_lease_that_has_ended_is_a_loss(int $port): void
{
    $grant = locks($port)->lock(NAME, lease: 0.2);
    $next = locks($port)->lock(NAME, lease: 10, wait: 5);
    same(0.0, $grant->remaining());
    throws(Lost::class, fn () => $grant->check());
    throws(Lost::class, fn () => $grant->extend(10));
    throws(Lost::class, fn () => $grant->release());
    $next->check();
}

function test_a_reply_that_is_lost(int $port): void
{
    $proxy = Testbed::order('proxy', ['port' => $port])['port'];
    foreach (['LOCK.ACQUIRE', 'LOCK.RELEASE'] as $words) {
        Testbed::order('inject', ['port' => $proxy, 'fault' => 'cut', 'words' => $words]);
        // A slow machine must not take the time for the second try.
        $grant = (new Locks(fn () => client($proxy), 'test', reply: 5.0))->lock(NAME, lease: 30);
        $grant->release();
        same(0, holders($port));
    }
    Testbed::order('inject', ['port' => $proxy, 'fault' => 'cut', 'words' => 'LOCK.ACQUIRE', 'times' => 100]);
    throws(Unavailable::class, fn () => locks($proxy)->lock(NAME, lease: 30));
    eventually(fn () => 0 === holders($port), 'the grant to be given back', 5);
    Testbed::order('end', ['port' => $proxy]);
}

function test_what_is_refused(int $port): void
{
    client($port)->set('text', 'no lock');
    throws(Misuse::class, fn () => locks($port)->lock('text', lease: 10));
    client($port)->rawCommand('ACL', 'SETUSER', 'nobody', 'on', '>secret', '~*', '-@all', '+auth', '+ping');
    $redis = client($port);
    $redis->auth(['nobody', 'secret']);
    throws(Refused::class, fn () => (new Locks($redis))->lock(NAME, lease: 10, wait: 10));
}

function test_a_server_that_hangs(int $port): void
{
    $grant = locks($port)->lock(NAME, lease: 30);
    Testbed::order('pause', ['port' => $port]);
    foreach ([fn () => locks($port)->lock('other', lease: 5), fn () => $grant->check(), fn () => $grant->release()] as $call) {
        $begin = microtime(true);
        throws(Unavailable::class, $call);
        check(microtime(true) - $begin < 6, 'the time limit');
    }
    Testbed::order('resume', ['port' => $port]);
}

main(array_slice($argv, 1));
