<?php

declare(strict_types=1);

namespace RedisLock;

use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;

/**
 * A store of Symfony Lock on the module redis-lock, by phpredis: who waits stands in line on the server, readers share,
 * and each grant has a fencing token that rises.
 */
final class RedisLockStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    use ExpiringStoreTrait;

    /** The longest time for which one call waits in line: then it is asked again whether the server lives. */
    private const SLICE = 60.0;

    /**
     * What an error reply means, by the words that it begins with, for acquire, renew and release: the first that
     * fit count. It says what clients/protocol/errors.json says; a test compares the two.
     */
    public const MEANINGS = [
        'NOTHELD' => ['lost', 'lost', 'lost'],
        'NOTOWNER' => ['lost', 'lost', 'lost'],
        'FENCED' => ['lost', 'lost', 'lost'],
        'WRONGTYPE' => ['misuse', 'lost', 'lost'],
        'NOTALONE' => ['not-alone', 'not-alone', 'misuse'],
        'DEADLOCK' => ['deadlock', 'misuse', 'misuse'],
        'MAXWAITERS' => self::REFUSED, 'OOM' => self::REFUSED, 'NOPERM' => self::BARRED, 'NOAUTH' => self::BARRED,
        'WRONGPASS' => self::BARRED, 'DENIED' => self::BARRED, 'NOPROTO' => self::BARRED, 'AHEAD' => self::REFUSED,
        'ERR unknown command' => self::REFUSED, 'ERR invalid password' => self::BARRED, 'ERR AUTH' => self::BARRED,
        'ERR Protocol error: unauthenticated' => self::BARRED, 'ERR KEEP needs the command CLIENT' => self::REFUSED,
        'ERR no fencing token is left' => self::REFUSED, 'ERR a fault inside the module' => self::BARRED,
        'ERR max number of clients' => self::PASSING,
        'ERR' => self::MISUSE, 'CROSSSLOT' => self::MISUSE,
        'LOADING' => self::PASSING, 'BUSY' => self::PASSING, 'NOREPLICAS' => self::PASSING,
        'MISCONF' => self::PASSING, 'READONLY' => self::PASSING, 'MASTERDOWN' => self::PASSING,
        'UNBLOCKED' => self::PASSING, 'CLUSTERDOWN' => self::PASSING, 'TRYAGAIN' => self::PASSING,
        'MOVED' => self::PASSING, 'ASK' => self::PASSING, 'REDIRECT' => self::PASSING,
        '' => self::MISUSE,
    ];
    private const REFUSED = ['refused', 'refused', 'refused'];
    private const BARRED = ['refused', 'passing', 'refused']; // while a grant stands, what bars its renewal may pass
    private const PASSING = ['passing', 'passing', 'passing'];
    private const MISUSE = ['misuse', 'misuse', 'misuse'];
    private const ACQUIRE = 0, RENEW = 1, RELEASE = 2;

    private \Redis|\RedisCluster|null $redis = null;
    private int $database = 0; // that a connection which was closed here had selected
    private bool $unheard = false; // a call of this acquire was not answered

    /**
     * All times are in seconds.
     *
     * @param \Redis|\RedisCluster|\Closure $connect connected, and in neither a transaction nor a pipeline; or what makes
     *     such a client, which is called again where a connection has failed: phpredis itself does not connect to a server
     *     again that was down once
     * @param float      $initialTtl the lease of a lock until its first refresh
     * @param float|null $wait       how long a blocking acquire waits; null: for ever
     * @param float      $reply      how long the server may take for a reply
     */
    public function __construct(
        private \Redis|\RedisCluster|\Closure $connect,
        private float $initialTtl = 300.0,
        private ?float $wait = null,
        private float $reply = 1.0,
    ) {
        self::positive($initialTtl);
    }

    /** The same store, whose blocking acquires wait for so long. */
    public function waiting(?float $seconds): self
    {
        $other = clone $this;
        $other->wait = $seconds;

        return $other;
    }

    /** The fencing token of what this key has taken: it rises from grant to grant. */
    public static function token(Key $key): int
    {
        return self::state($key)['token'] ?? throw new LockConflictedException("Nothing was taken with \"$key\".");
    }

    public function save(Key $key): void
    {
        $this->acquire($key, [], 0.0);
    }

    public function saveRead(Key $key): void
    {
        $this->acquire($key, ['SHARED'], 0.0);
    }

    public function waitAndSave(Key $key): void
    {
        $this->acquire($key, [], $this->wait ?? INF);
    }

    public function waitAndSaveRead(Key $key): void
    {
        $this->acquire($key, ['SHARED'], $this->wait ?? INF);
    }

    public function putOffExpiration(Key $key, float $ttl): void
    {
        self::positive($ttl);
        $state = self::state($key) ?? throw new LockConflictedException("\"$key\" is not held.");
        $key->reduceLifetime($ttl);
        $until = self::at($ttl);
        try {
            $this->call(self::RENEW, $key, ['LOCK.RENEW', $state['owner'], 'TOKEN', $state['token'], 'PX', self::ms($ttl)]);
        } catch (LockAcquiringException $error) { // it may have been carried out: no more is known than before, and than that
            $key->reduceLifetime(min($until, $state['until'] ?? 0.0) - self::at(0.0));
            throw $error;
        }
        $key->setState(self::class, ['until' => $until] + $state);
        $this->checkNotExpired($key);
    }

    public function delete(Key $key): void
    {
        if (null === $state = self::state($key)) {
            return;
        }
        try {
            $this->call(self::RELEASE, $key, ['LOCK.RELEASE', $state['owner'], 'ALL', 'TOKEN', $state['token']]);
        } catch (LockConflictedException) {
            // it was lost before, or released by a call whose reply was
        } catch (LockReleasingException $error) {
            if (!$error->getPrevious() instanceof ErrorReply) {
                self::mayBeReleased($key);
            }
            throw $error;
        }
        $key->removeState(self::class);
    }

    public function exists(Key $key): bool
    {
        if (null === $state = self::state($key)) {
            return false;
        }
        try {
            $this->call(self::RENEW, $key, ['LOCK.FENCE', $state['token']]);
        } catch (LockConflictedException) {
            return false;
        }

        return true;
    }

    /** Takes the lock, or takes it anew with an owner that has it already. */
    private function acquire(Key $key, array $mode, float $wait): void
    {
        $state = self::state($key);
        $owner = null === $state || isset($state['late']) ? self::newOwner() : $state['owner'];
        $words = ['LOCK.ACQUIRE', $owner, ...$mode, 'PX', self::ms($this->initialTtl), 'HOLDS', 1];
        $until = self::now() + $wait;
        $grant = null;
        $this->unheard = false;
        try {
            do {
                $slice = min(self::SLICE, max(0.0, $until - self::now()));
                $block = $slice > 0.0 ? ['BLOCK', self::ms($slice)] : [];
                $key->resetLifetime();
                $key->reduceLifetime($slice + $this->initialTtl);
                $grant = $this->call(self::ACQUIRE, $key, [...$words, ...$block], $slice, $until);
            } while (null === $grant && self::now() < $until);
            if (null === $grant) {
                throw new LockConflictedException("\"$key\": others hold it, or are in line for it.");
            }
            $key->setState(self::class, ['owner' => $owner, 'token' => $grant[0], 'until' => self::at($key->getRemainingLifetime())]);
            if ([] !== $mode && 0 !== ($grant[4] ?? 0)) { // it was held alone, and is to be shared from now on
                $this->call(self::RENEW, $key, ['LOCK.RENEW', $owner, 'SHARED', 'TOKEN', $grant[0]]);
            }
            if ($wait > 0.0) { // how long ago the grant came is not known: its time begins anew
                $this->putOffExpiration($key, $this->initialTtl);
            }
        } catch (\Throwable $error) {
            // A conflict leaves what the key had, and nothing new but where a call before it was not answered.
            if (!$error instanceof LockConflictedException || null === $state && null === $grant && $this->unheard) {
                $this->callOff($key, $owner);
            }
            throw $error;
        }
        $this->checkNotExpired($key);
    }

    /** After a call whose reply did not come: nothing is to stay granted, and nobody in line. */
    private function callOff(Key $key, string $owner): void
    {
        try {
            $this->once($key, ['LOCK.RELEASE', $owner, 'ALL'], $this->reply);
        } catch (\Throwable) {
            self::mayBeReleased($key); // else the lease ends it
        }
    }

    /** A release that nobody answered may come late: it must not meet what this key takes next, so that has another owner. */
    private static function mayBeReleased(Key $key): void
    {
        if (null !== $state = self::state($key)) {
            $key->setState(self::class, ['late' => true] + $state);
        }
    }

    /** The reply to a call, which is repeated once, and while there is time when what hinders it may pass. */
    private function call(int $kind, Key $key, array $words, float $wait = 0.0, float $until = 0.0): mixed
    {
        $until = max($until, self::now() + $this->reply);
        for ($attempt = 0;; ++$attempt) {
            try {
                return $this->once($key, $words, $wait + $this->reply);
            } catch (ErrorReply $cause) {
                $error = $cause->getMessage();
            } catch (\RedisException|\RedisClusterException $cause) {
                $error = 'LOADING'; // no reply: that passes
                $this->unheard = true;
            }
            if (preg_match('/^(READONLY|MASTERDOWN|UNBLOCKED)/', $error) && $this->redis) {
                $this->leave($this->redis); // a new one may find the new primary
            }
            $meaning = self::meaning($error, $kind);
            if ('passing' === $meaning && self::now() < $until) {
                usleep(random_int(30, 50) * 1000 * min(10, $attempt + 1));
                if ($wait > 0.0) {
                    return null; // by now there is less time left to wait in line
                }
                continue;
            }
            $told = "\"$key\": {$cause->getMessage()}";
            $told .= str_starts_with($error, 'ERR unknown command') ? ' (is the module lock loaded?)' : '';
            throw match (true) {
                in_array($meaning, ['lost', 'not-alone', 'deadlock'], true) => new LockConflictedException($told, 0, $cause),
                self::RELEASE === $kind => new LockReleasingException($told, 0, $cause),
                default => new LockAcquiringException($told, 0, $cause),
            };
        }
    }

    /**
     * Sends a call, with its own time limit. The connection is closed where the reply did not come: it must not answer
     * the next call.
     *
     * @throws ErrorReply
     */
    private function once(Key $key, array $words, float $seconds): mixed
    {
        $redis = $this->redis ??= $this->connect instanceof \Closure ? ($this->connect)() : $this->connect;
        $name = $redis->_prefix((string) $key);
        array_splice($words, 1, 0, [$name]);
        $words = array_map('strval', $words);
        $before = $redis->getOption(\Redis::OPT_READ_TIMEOUT);
        try {
            $redis->setOption(\Redis::OPT_READ_TIMEOUT, (string) $seconds);
            if ($this->database) { // closed below: phpredis forgets it then
                $redis->select($this->database);
                $this->database = 0;
            }
            $redis->clearLastError();
            $reply = $redis instanceof \RedisCluster ? $redis->rawCommand($name, ...$words) : $redis->rawCommand(...$words);
        } catch (\RedisException|\RedisClusterException $failed) {
            if (preg_match('/^[A-Z]{3,}( |$)/', $failed->getMessage())) { // phpredis throws some of the error replies
                throw new ErrorReply($failed->getMessage(), 0, $failed);
            }
            $this->leave($redis);
            throw $failed;
        } finally {
            $redis->setOption(\Redis::OPT_READ_TIMEOUT, (string) $before);
        }
        if (null !== $error = $redis->getLastError()) {
            throw new ErrorReply($error);
        }

        return false === $reply ? null : $reply;
    }

    private function leave(\Redis|\RedisCluster $redis): void
    {
        $this->redis = null;
        if ($redis instanceof \Redis && !$this->connect instanceof \Closure) {
            $this->database = $redis->getDbNum() ?: $this->database;
        }
        $redis->close();
    }

    private static function meaning(string $text, int $kind): string
    {
        foreach (self::MEANINGS as $begins => $classes) {
            if (str_starts_with($text, (string) $begins)) {
                return $classes[$kind];
            }
        }

        return 'misuse';
    }

    /** @return array{owner: string, token: int, until?: float, late?: true}|null */
    private static function state(Key $key): ?array
    {
        return $key->hasState(self::class) ? $key->getState(self::class) : null;
    }

    private static function newOwner(): string
    {
        $place = substr(preg_replace('/[^!-~]/', '_', 'symfony:'.gethostname().':'.getmypid()), 0, 200);

        return $place.':'.bin2hex(random_bytes(16));
    }

    private static function positive(float $ttl): void
    {
        if ($ttl <= 0) {
            throw new InvalidTtlException("A lease is longer than 0 s, not $ttl.");
        }
    }

    private static function ms(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }

    /** The time of day in so many seconds: a key may go on in another process. */
    private static function at(?float $seconds): float
    {
        return microtime(true) + (float) $seconds;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}

/** An error reply, as the server wrote it. */
final class ErrorReply extends \RuntimeException
{
}
