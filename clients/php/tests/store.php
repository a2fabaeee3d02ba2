<?php

/** What Symfony asks of a store, in words of our own, and what happens when things fail. */

declare(strict_types=1);

require 'Symfony/Component/Lock/autoload.php';
require __DIR__.'/../RedisLockStore.php';
require __DIR__.'/testbed.php';

use RedisLock\RedisLockStore;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;

const NAME = 'lock:orders:42';

function client(int $port): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', $port, 1.0);

    return $redis;
}

function store(int $port, float $ttl = 30.0, ?float $wait = null): RedisLockStore
{
    return new RedisLockStore(client($port), $ttl, $wait);
}

function info(int $port): array
{
    $flat = client($port)->rawCommand('LOCK.INFO', NAME) ?: [];
    $names = array_filter($flat, fn ($n) => 0 === $n % 2, ARRAY_FILTER_USE_KEY);

    return array_combine($names, array_filter($flat, fn ($n) => 1 === $n % 2, ARRAY_FILTER_USE_KEY));
}

function wait_for_waiter(int $port): void
{
    eventually(fn () => 1 === (info($port)['waiters'] ?? 0), 'a call in line');
}

// What a store promises.

function test_a_key_is_there_from_save_to_delete(int $port): void
{
    [$store, $key] = [store($port), new Key(NAME)];
    same(false, $store->exists($key));
    $store->save($key);
    same(true, $store->exists($key));
    same(info($port)['token'], RedisLockStore::token($key));
    $store->delete($key);
    same(false, $store->exists($key));
    same([], info($port));
    $store->delete($key);
    throws(LockConflictedException::class, fn () => RedisLockStore::token($key));
}

function test_resources_are_apart(int $port): void
{
    [$store, $one, $two] = [store($port), new Key(NAME), new Key('lock:other')];
    $store->save($one);
    same(false, $store->exists($two));
    $store->save($two);
    $store->delete($one);
    same([false, true], [$store->exists($one), $store->exists($two)]);
}

function test_two_keys_of_one_resource_exclude_each_other(int $port): void
{
    [$store, $one, $two] = [store($port), new Key(NAME), new Key(NAME)];
    $store->save($one);
    throws(LockConflictedException::class, fn () => $store->save($two));
    same([true, false], [$store->exists($one), $store->exists($two)]);
    $store->delete($two); // which has nothing
    same(true, $store->exists($one));
    $store->delete($one);
    $store->save($two);
    same([false, true], [$store->exists($one), $store->exists($two)]);
}

function test_to_save_again_is_no_second_hold(int $port): void
{
    [$store, $key] = [store($port), new Key(NAME)];
    $store->save($key);
    $token = RedisLockStore::token($key);
    $store->save($key);
    same($token, RedisLockStore::token($key));
    $store->delete($key);
    same(false, $store->exists($key));
}

function test_readers_share_and_keep_writers_out(int $port): void
{
    $store = store($port);
    [$one, $two, $writer] = [new Key(NAME), new Key(NAME), new Key(NAME)];
    $store->saveRead($one);
    $store->saveRead($two);
    same([true, true], [$store->exists($one), $store->exists($two)]);
    throws(LockConflictedException::class, fn () => $store->save($writer));
    $store->delete($one);
    throws(LockConflictedException::class, fn () => $store->save($writer));
    $store->delete($two);
    $store->save($writer);
    throws(LockConflictedException::class, fn () => $store->saveRead($one));
}

function test_a_reader_becomes_a_writer_where_it_is_alone(int $port): void
{
    [$store, $one, $two] = [store($port), new Key(NAME), new Key(NAME)];
    $store->saveRead($one);
    $store->saveRead($two);
    throws(LockConflictedException::class, fn () => $store->save($one));
    same(true, $store->exists($one));
    $store->delete($two);
    $store->save($one);
    throws(LockConflictedException::class, fn () => $store->saveRead($two));
}

function test_a_writer_becomes_a_reader(int $port): void
{
    [$store, $one, $two] = [store($port), new Key(NAME), new Key(NAME)];
    $store->save($one);
    throws(LockConflictedException::class, fn () => $store->saveRead($two));
    $store->saveRead($one);
    $store->saveRead($two);
    same([true, true], [$store->exists($one), $store->exists($two)]);
    throws(LockConflictedException::class, fn () => $store->save($two));
}

function test_a_lease_ends(int $port): void
{
    [$store, $one, $two] = [store($port, 0.2), new Key(NAME), new Key(NAME)];
    $store->save($one);
    same(false, $one->isExpired());
    eventually(fn () => !$store->exists($one), 'the end of the lease', 2);
    same(true, $one->isExpired());
    throws(LockConflictedException::class, fn () => $store->putOffExpiration($one, 5.0));
    $store->save($two);
    $store->delete($one); // which is another grant
    same(true, $store->exists($two));
}

function test_a_lease_is_put_off(int $port): void
{
    [$store, $key] = [store($port, 0.3), new Key(NAME)];
    $store->save($key);
    $key->resetLifetime();
    $store->putOffExpiration($key, 20.0);
    check(info($port)['ttl-ms'] > 15_000, 'the lease is longer');
    check($key->getRemainingLifetime() > 15, 'the key knows');
    $key->resetLifetime();
    $store->putOffExpiration($key, 0.2);
    eventually(fn () => !$store->exists($key), 'the end of the lease', 2);
    throws(InvalidTtlException::class, fn () => $store->putOffExpiration($key, 0.0));
    throws(InvalidTtlException::class, fn () => store($port, 0.0));
}

function test_a_key_that_is_late_is_given_back(int $port): void
{
    [$store, $key] = [store($port), new Key(NAME)];
    $store->save($key);
    $key->reduceLifetime(-1.0);
    throws(LockExpiredException::class, fn () => $store->putOffExpiration($key, 5.0));
    same([], info($port));
}

function test_a_key_goes_on_in_another_process(int $port): void
{
    [$store, $key] = [store($port), new Key(NAME)];
    $store->save($key);
    $key = unserialize(serialize($key));
    $other = store($port);
    same(true, $other->exists($key));
    $other->putOffExpiration($key, 5.0);
    $other->delete($key);
    same([], info($port));
}

function test_who_waits_gets_it_in_line(int $port): void
{
    foreach (['waitAndSave', 'waitAndSaveRead'] as $way) {
        [$store, $key] = [store($port), new Key(NAME)];
        $store->save($key);
        $other = aside(function () use ($port, $way) {
            [$store, $key] = [store($port), new Key(NAME)];
            $store->$way($key);
            same(true, $store->exists($key));
            check(info($port)['ttl-ms'] > 25_000, 'a whole lease');
            $store->delete($key);
        });
        wait_for_waiter($port);
        throws(LockConflictedException::class, fn () => $store->saveRead(new Key(NAME)));
        $store->delete($key);
        $other();
        same([], info($port));
    }
}

function test_a_wait_has_an_end(int $port): void
{
    $holder = store($port);
    $holder->save(new Key(NAME));
    $begin = microtime(true);
    throws(LockConflictedException::class, fn () => store($port)->waiting(0.3)->waitAndSave(new Key(NAME)));
    $took = microtime(true) - $begin;
    check($took > 0.25 && $took < 5.0, "the wait took $took s");
    same(0, info($port)['waiters']);
}

// Through Symfony's own classes.

function test_locks_of_a_factory(int $port): void
{
    $factory = new LockFactory(store($port, 30.0, 0.2));
    $lock = $factory->createLock(NAME, 5.0);
    same(true, $lock->acquire());
    check(info($port)['ttl-ms'] <= 5000, 'the lease is the lock\'s');
    $other = $factory->createLock(NAME);
    same(false, $other->acquire());
    throws(LockConflictedException::class, fn () => $other->acquire(true));
    same(false, $other->acquireRead());
    $lock->refresh();
    same([true, false], [$lock->isAcquired(), $lock->isExpired()]);
    check($lock->getRemainingLifetime() > 4, 'what is left');
    $lock->release();
    same(true, $other->acquireRead(true));
    same(true, $lock->acquireRead());
    $lock->release();
    unset($other); // which gives it back
    same([], info($port));
}

function test_a_lock_that_was_lost_is_told(int $port): void
{
    $lock = (new LockFactory(store($port)))->createLock(NAME, 5.0);
    $lock->acquire();
    client($port)->del(NAME);
    same(false, $lock->isAcquired());
    throws(LockConflictedException::class, fn () => $lock->refresh());
    client($port)->rawCommand('LOCK.ACQUIRE', NAME, 'another');
    $lock->release();
    same('another', info($port)['owner']);
}

// When things fail.

function test_a_server_that_is_killed_and_comes_back(int $port): void
{
    [$store, $key] = [new RedisLockStore(fn () => client($port)), new Key(NAME)];
    $store->save($key);
    Testbed::order('kill', ['port' => $port]);
    $begin = microtime(true);
    throws(LockAcquiringException::class, fn () => $store->save(new Key('lock:other')));
    throws(LockAcquiringException::class, fn () => $store->exists($key));
    throws(LockReleasingException::class, fn () => $store->delete($key));
    check(microtime(true) - $begin < 15, 'time limits');
    Testbed::order('restart', ['port' => $port]);
    same(false, $store->exists($key)); // it has come back without its data
    throws(LockConflictedException::class, fn () => $store->putOffExpiration($key, 5.0));
    $store->save($key);
    same(true, $store->exists($key));
}

function test_a_wait_outlives_a_restart_of_the_server(int $port): void
{
    $holder = store($port);
    $holder->save(new Key(NAME));
    $store = new RedisLockStore(fn () => client($port), 30.0, 30.0);
    $other = aside(fn () => $store->waitAndSave(new Key(NAME)));
    wait_for_waiter($port);
    Testbed::order('kill', ['port' => $port]);
    Testbed::order('restart', ['port' => $port]);
    $other();
    check(str_starts_with(info($port)['owner'], 'symfony:'), 'it has the lock');
}

function test_a_server_that_hangs_holds_up_nobody_for_long(int $port): void
{
    [$store, $key] = [store($port), new Key(NAME)];
    $store->save($key);
    Testbed::order('pause', ['port' => $port]);
    $begin = microtime(true);
    throws(LockAcquiringException::class, fn () => $store->save(new Key('lock:other')));
    check(microtime(true) - $begin < 6, 'the time limit of an acquire');
    $begin = microtime(true);
    throws(LockAcquiringException::class, fn () => store($port)->waiting(1.0)->waitAndSave(new Key(NAME)));
    check(microtime(true) - $begin < 8, 'the time limit of a wait');
    $begin = microtime(true);
    throws(LockReleasingException::class, fn () => $store->delete($key));
    check(microtime(true) - $begin < 5, 'the time limit of a release');
    Testbed::order('resume', ['port' => $port]);
    eventually(fn () => !client($port)->exists('lock:other'), 'no grant that nobody knows of');
    $store->save(new Key('lock:third'));
}

function test_a_release_that_comes_late_does_not_meet_the_next_grant(int $port): void
{
    [$store, $key] = [store($port), new Key(NAME)];
    foreach (['delete' => LockReleasingException::class, 'save' => LockAcquiringException::class] as $call => $error) {
        $store->save($key);
        $owner = info($port)['owner'];
        Testbed::order('pause', ['port' => $port]);
        throws($error, fn () => $store->$call($key));
        Testbed::order('resume', ['port' => $port]);
        eventually(fn () => !client($port)->exists(NAME), 'the late release');
        $store->save($key);
        check($owner !== info($port)['owner'], "another owner after $call");
        $store->delete($key);
        check(!client($port)->exists(NAME), "released after $call");
    }
}

function test_a_reply_that_is_lost_leaves_nothing_granted(int $port): void
{
    $proxy = Testbed::order('proxy', ['port' => $port])['port'];
    $store = store($proxy);
    Testbed::order('inject', ['port' => $proxy, 'fault' => 'cut', 'words' => 'LOCK.ACQUIRE']);
    [$key, $other] = [new Key(NAME), new Key(NAME)];
    $store->save($key); // the call was sent twice
    same(1, info($port)['holds']);
    $store->delete($key);
    Testbed::order('inject', ['port' => $proxy, 'fault' => 'silence', 'words' => 'LOCK.ACQUIRE']);
    throws(LockAcquiringException::class, fn () => $store->save($other));
    eventually(fn () => [] === info($port), 'the grant to be given back', 5);
    Testbed::order('end', ['port' => $proxy]);
}

function test_an_acquire_that_fails_leaves_nothing_granted(int $port): void
{
    $proxy = Testbed::order('proxy', ['port' => $port])['port'];
    $store = store($proxy, 30.0, 1.0);
    store($port, 0.5)->save(new Key(NAME)); // for half a second
    Testbed::order('inject', ['port' => $proxy, 'fault' => 'reset-request', 'words' => 'LOCK.RENEW', 'times' => 100]);
    throws(LockAcquiringException::class, fn () => $store->waitAndSave(new Key(NAME)));
    eventually(fn () => [] === info($port), 'the grant to be given back', 5);
    Testbed::order('end', ['port' => $proxy]);
    // All replies to a wait are lost: it ends as a conflict between two tries, else with the error of the last one.
    $proxy = Testbed::order('proxy', ['port' => $port])['port'];
    $store = store($proxy, 30.0, 1.0);
    Testbed::order('inject', ['port' => $proxy, 'fault' => 'cut', 'words' => 'LOCK.ACQUIRE', 'times' => 10_000]);
    $error = throws(Exception::class, fn () => $store->waitAndSave(new Key(NAME)));
    $isConflict = $error instanceof LockConflictedException;
    check($isConflict || $error instanceof LockAcquiringException, get_class($error));
    eventually(fn () => [] === info($port), 'the unheard grant to be given back', 5);
    Testbed::order('end', ['port' => $proxy]);
}

function test_a_refresh_that_is_not_answered_lengthens_nothing(int $port): void
{
    $proxy = Testbed::order('proxy', ['port' => $port])['port'];
    [$store, $key] = [store($proxy), new Key(NAME)];
    $store->save($key);
    foreach ([300.0, 5.0] as $ttl) {
        Testbed::order('inject', ['port' => $proxy, 'fault' => 'cut', 'words' => 'LOCK.RENEW', 'times' => 100]);
        $key->resetLifetime(); // as Symfony's Lock does
        throws(LockAcquiringException::class, fn () => $store->putOffExpiration($key, $ttl));
        check($key->getRemainingLifetime() <= min(30, $ttl), "{$key->getRemainingLifetime()} s are left");
    }
    Testbed::order('end', ['port' => $proxy]);
}

function test_a_server_that_is_no_primary_any_more_is_left(int $port): void
{
    $made = 0;
    $store = new RedisLockStore(function () use ($port, &$made) {
        ++$made;

        return client($port);
    });
    $store->save(new Key('lock:other'));
    client($port)->rawCommand('REPLICAOF', '127.0.0.1', '1');
    throws(LockAcquiringException::class, fn () => $store->save(new Key(NAME)));
    check($made > 1, 'a new connection');
    client($port)->rawCommand('REPLICAOF', 'NO', 'ONE');
    $store->save(new Key(NAME));
}

function test_another_type_of_key_and_a_user_without_rights(int $port): void
{
    client($port)->set('text', 'no lock');
    throws(LockAcquiringException::class, fn () => store($port)->save(new Key('text')));
    client($port)->rawCommand('ACL', 'SETUSER', 'nobody', 'on', '>secret', '~*', '-@all', '+auth', '+ping');
    $redis = client($port);
    $redis->auth(['nobody', 'secret']);
    $error = throws(LockAcquiringException::class, fn () => (new RedisLockStore($redis))->save(new Key(NAME)));
    check(str_contains($error->getMessage(), 'NOPERM'), $error->getMessage());
}

function test_database_and_login_outlive_a_new_connection(int $port): void
{
    client($port)->rawCommand('CONFIG', 'SET', 'requirepass', 'secret');
    $redis = client($port);
    $redis->auth('secret');
    $redis->select(2);
    $redis->setOption(Redis::OPT_PREFIX, 'shop:');
    [$store, $key] = [new RedisLockStore($redis), new Key(NAME)];
    $store->save($key);
    $other = client($port);
    $other->auth('secret');
    $other->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    $store->putOffExpiration($key, 20.0);
    $other->select(2);
    same(1, $other->exists('shop:'.NAME));
    $other->rawCommand('CLIENT', 'PAUSE', '1500');
    throws(LockAcquiringException::class, fn () => $store->putOffExpiration($key, 20.0));
    $store->putOffExpiration($key, 20.0);
    $store->delete($key);
    same(0, $other->exists('shop:'.NAME));
}

function test_in_a_cluster(int $port): void
{
    $nodes = Testbed::order('cluster')['nodes'];
    $redis = new RedisCluster(null, ["127.0.0.1:{$nodes[0]['port']}"], 1.0, 1.0);
    $store = new RedisLockStore($redis, 30.0, 0.2);
    foreach (['a', 'b', 'c', 'd'] as $name) {
        [$key, $other] = [new Key($name), new Key($name)];
        $store->save($key);
        throws(LockConflictedException::class, fn () => $store->waitAndSave($other));
        same([true, false], [$store->exists($key), $store->exists($other)]);
        $store->putOffExpiration($key, 5.0);
        $store->delete($key);
        $store->saveRead($other);
    }
    Testbed::order('end', ['port' => $nodes[0]['port']]);
}

function test_what_error_replies_mean(int $port): void
{
    $table = json_decode(file_get_contents(__DIR__.'/../../protocol/errors.json'), true)['errors'];
    $theirs = array_map(fn ($it) => [$it['acquire'], $it['move'], $it['release']], array_column($table, null, 'begins'));
    same(count($table), count(RedisLock\Calls::MEANINGS));
    foreach ($theirs as $begins => $classes) {
        same($classes, RedisLock\Calls::MEANINGS[$begins], $begins);
    }
    same(array_keys($theirs), array_keys(RedisLock\Calls::MEANINGS), 'the order of the table');
}

function test_the_first_screens_of_the_readme(int $port): void
{
    preg_match_all('/```php\n(.*?)```/s', file_get_contents(__DIR__.'/../README.md'), $programs);
    check(count($programs[1]) >= 2, 'programs');
    foreach ($programs[1] as $number => $program) {
        $program = str_replace(['6379', "require 'RedisLock"], [(string) $port, "require '".dirname(__DIR__).'/RedisLock'], $program);
        $file = tempnam(sys_get_temp_dir(), 'readme');
        file_put_contents($file, $program);
        exec(PHP_BINARY.' '.$file.' 2>&1', $lines, $code);
        unlink($file);
        same(0, $code, implode("\n", $lines));
    }
    check((bool) preg_match('/^fence writes with \d{16}$/', $lines[0]), implode("\n", $lines));
}

main(array_slice($argv, 1));
