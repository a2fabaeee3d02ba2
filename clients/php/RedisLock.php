<?php

declare(strict_types=1);

namespace RedisLock;

/** All errors of this file. The previous one is the error of phpredis, or an ErrorReply. */
class LockError extends \RuntimeException
{
}

/** Others hold the lock, and the time to wait is over. */
final class Busy extends LockError
{
}

/** The grant ended before its holder released it. */
final class Lost extends LockError
{
}

/** The server refuses: no right, a wrong password, memory full, a limit, or the module is not loaded. */
final class Refused extends LockError
{
}

/** The server could not be reached, or did not answer in time. */
final class Unavailable extends LockError
{
}

/** Wrong arguments, another type of key, a second release. */
final class Misuse extends LockError
{
}

/** An error reply, as the server wrote it. */
final class ErrorReply extends \RuntimeException
{
}

/**
 * Distributed locks of the module redis-lock, by phpredis, with fixed leases: waiters queue in the server, and each grant
 * has a fencing token. A PHP process has no thread that could renew a lease: choose one that is longer than the work.
 *
 *     $locks = new Locks($redis);
 *     $grant = $locks->lock('lock:orders:42', lease: 60, wait: 10);
 *
 * All times are in seconds.
 */
final class Locks
{
    private Calls $calls;

    /**
     * @param \Redis|\RedisCluster|\Closure $connect connected, and in neither a transaction nor a pipeline; or a function
     *     that makes such a client, and is called again after a connection has failed
     * @param string $service the first part of each owner's name
     * @param float  $reply   the limit of each reply of the server
     */
    public function __construct(\Redis|\RedisCluster|\Closure $connect, private string $service = 'php', float $reply = 1.0)
    {
        $this->calls = new Calls($connect, $reply);
    }

    /** The lock for one holder. `wait`: how long to queue; INF: without limit. */
    public function lock(string $key, float $lease, float $wait = 0.0): Grant
    {
        return $this->take($key, [], $lease, $wait);
    }

    /** The lock for any number that share it: the readers' side of a read and write lock. */
    public function shared(string $key, float $lease, float $wait = 0.0): Grant
    {
        return $this->take($key, ['SHARED'], $lease, $wait);
    }

    /** One of `of` permits of a semaphore. */
    public function permit(string $key, int $of, float $lease, float $wait = 0.0): Grant
    {
        if ($of < 1) {
            throw new Misuse("A semaphore must have at least 1 permit, not $of.");
        }

        return $this->take($key, ['LIMIT', $of], $lease, $wait);
    }

    private function take(string $key, array $mode, float $lease, float $wait): Grant
    {
        if ($lease <= 0.0) {
            throw new Misuse("A lease must be longer than 0 s, not $lease.");
        }
        $owner = Calls::newOwner($this->service);
        try {
            [$token, $until] = $this->calls->acquire($key, $owner, $mode, $lease, $wait);
        } catch (\Throwable $error) {
            if ($this->calls->unanswered || !$error instanceof LockError) {
                $this->calls->giveUp($key, $owner);
            }
            throw $error;
        }

        return new Grant($this->calls, $key, $owner, $token, $until);
    }
}

/** A lock that is held. Nothing releases it by itself, but the end of its lease. */
final class Grant
{
    private bool $released = false;

    /** @internal */
    public function __construct(
        private Calls $calls,
        public readonly string $key,
        public readonly string $owner,
        /** The fencing token: tokens of one lock rise from grant to grant. */
        public readonly int $token,
        private float $until,
    ) {
    }

    /** For how many seconds nobody else has the lock, by the clock alone; 0: it is not surely held. */
    public function remaining(): float
    {
        return $this->released ? 0.0 : max(0.0, $this->until - Calls::now());
    }

    /** Asks the server, before a critical step, whether the lock is held. Throws Lost, Unavailable. */
    public function check(): void
    {
        $this->stands();
        $this->calls->call(Calls::MOVE, $this->key, ['LOCK.FENCE', $this->token]);
    }

    /** Sets the lease, from now on. */
    public function extend(float $lease): void
    {
        $this->stands();
        $sent = Calls::now();
        $this->until = min($this->until, $sent + $lease); // a shorter one may begin though its reply is lost
        $this->calls->call(Calls::MOVE, $this->key, ['LOCK.RENEW', $this->owner, 'TOKEN', $this->token, 'PX', Calls::ms($lease)]);
        $this->until = $sent + $lease;
    }

    /** Releases the lock. Throws Lost if it was lost before. */
    public function release(): void
    {
        $this->stands();
        $this->released = true;
        $this->calls->release($this->key, $this->owner, $this->token);
    }

    private function stands(): void
    {
        if ($this->released) {
            throw new Misuse("\"$this->key\": released.");
        }
    }
}

/**
 * Calls with a limit in time, which are repeated if they fail in passing.
 *
 * @internal
 */
final class Calls
{
    /** The longest time for which one call waits in line: then it is asked again whether the server lives. */
    private const SLICE = 60.0;
    public const ACQUIRE = 0, MOVE = 1, RELEASE = 2;
    private const REFUSED = ['refused', 'passing', 'refused'];
    private const PASSING = ['passing', 'passing', 'passing'];
    private const MISUSE = ['misuse', 'passing', 'misuse'];

    /**
     * The meaning of an error reply for an acquire, a renewal, and a release, by its first words. The first that fit
     * count. A test compares it with clients/protocol/errors.json.
     */
    public const MEANINGS = [
        'NOTHELD' => ['lost', 'lost', 'lost'],
        'NOTOWNER' => ['lost', 'lost', 'lost'],
        'FENCED' => ['lost', 'lost', 'lost'],
        'WRONGTYPE' => ['misuse', 'lost', 'lost'],
        'NOTALONE' => ['not-alone', 'passing', 'misuse'],
        'DEADLOCK' => ['deadlock', 'passing', 'misuse'],
        'NOSESSION' => self::PASSING, 'LOADING' => self::PASSING, 'BUSY' => self::PASSING, 'READONLY' => self::PASSING,
        'MASTERDOWN' => self::PASSING, 'NOREPLICAS' => self::PASSING, 'MISCONF' => self::PASSING,
        'UNBLOCKED' => self::PASSING, 'CLUSTERDOWN' => self::PASSING, 'TRYAGAIN' => self::PASSING,
        'MOVED' => self::PASSING, 'ASK' => self::PASSING, 'ERR max number of clients' => self::PASSING,
        'NOPERM' => self::REFUSED, 'NOAUTH' => self::REFUSED, 'WRONGPASS' => self::REFUSED, 'DENIED' => self::REFUSED,
        'NOPROTO' => self::REFUSED, 'OOM' => self::REFUSED, 'MAXWAITERS' => self::REFUSED,
        'MAXSESSIONS' => self::REFUSED, 'ERR unknown command' => self::REFUSED,
        'ERR unknown subcommand' => self::REFUSED, 'ERR invalid password' => self::REFUSED,
        'ERR AUTH' => self::REFUSED, 'ERR Protocol error: unauthenticated' => self::REFUSED,
        'ERR no fencing token is left' => self::REFUSED, 'ERR a fault inside the module' => self::REFUSED,
        'CROSSSLOT' => self::MISUSE, 'ERR' => self::MISUSE, '' => self::MISUSE,
    ];

    /** Whether a call of the last acquire, or a release, got no reply. */
    public bool $unanswered = false;
    private \Redis|\RedisCluster|null $redis = null;
    private int $database = 0; // that a connection which was closed here had selected

    public function __construct(private \Redis|\RedisCluster|\Closure $connect, private float $reply)
    {
    }

    /**
     * Takes the lock, or takes it again with an owner that has it.
     *
     * @return array{int, float} the token, and until when it is surely held
     */
    public function acquire(string $key, string $owner, array $mode, float $lease, float $wait): array
    {
        $words = ['LOCK.ACQUIRE', $owner, ...$mode, 'PX', self::ms($lease), 'HOLDS', 1];
        $until = self::now() + $wait;
        $this->unanswered = false;
        do {
            $slice = min(self::SLICE, max(0.0, $until - self::now()));
            $block = $slice > 0.0 ? ['BLOCK', self::ms($slice)] : [];
            $sent = self::now();
            $grant = $this->call(self::ACQUIRE, $key, [...$words, ...$block], $slice, $until);
        } while (null === $grant && self::now() < $until);
        if (null === $grant) {
            throw new Busy("\"$key\": others hold the lock.");
        }
        $share = [] !== $mode && 'SHARED' === $mode[0] && 0 !== ($grant[4] ?? 0); // it was held alone, and is to be shared
        if ($share || $wait > 0.0) { // how long ago the grant of a wait came is not known: its lease begins anew
            $sent = self::now();
            try {
                $this->call(self::MOVE, $key, ['LOCK.RENEW', $owner, ...($share ? $mode : []), 'PX', self::ms($lease), 'TOKEN', $grant[0]]);
            } catch (LockError $error) {
                $this->unanswered = true; // it may be held
                throw $error;
            }
        }

        return [$grant[0], $sent + $lease];
    }

    /** The last release of a grant. Throws Lost if it was lost before. */
    public function release(string $key, string $owner, int $token): void
    {
        $this->unanswered = false;
        try {
            $this->call(self::RELEASE, $key, ['LOCK.RELEASE', $owner, 'ALL', 'TOKEN', $token]);
        } catch (Lost $error) {
            if (!$this->unanswered) { // else an earlier try got through
                throw $error;
            }
        }
    }

    /** After a call without a reply: nothing stays granted or in line, as far as the server answers. */
    public function giveUp(string $key, string $owner): bool
    {
        try {
            $this->once($key, ['LOCK.RELEASE', $owner, 'ALL'], $this->reply);
        } catch (ErrorReply) {
            // it had nothing
        } catch (\Throwable) {
            return false; // the lease ends it
        }

        return true;
    }

    /** The reply to a call, which is repeated once, and while there is time if it fails in passing. */
    public function call(int $kind, string $key, array $words, float $wait = 0.0, float $until = 0.0): mixed
    {
        $until = max($until, self::now() + $this->reply);
        for ($attempt = 0;; ++$attempt) {
            try {
                return $this->once($key, $words, $wait + $this->reply);
            } catch (ErrorReply $cause) {
                $error = $cause->getMessage();
            } catch (\RedisException|\RedisClusterException $cause) {
                $error = 'LOADING'; // no reply: that passes
                $this->unanswered = true;
            }
            if (preg_match('/^(READONLY|MASTERDOWN|UNBLOCKED)/', $error) && $this->redis) {
                $this->leave($this->redis); // a new one may find the new primary
            }
            $meaning = self::meaning($error, $kind);
            $isRefused = self::MOVE === $kind && 'refused' === self::meaning($error, self::RELEASE);
            if ('passing' === $meaning && !$isRefused && self::now() < $until) {
                usleep(random_int(30, 50) * 1000 * min(10, $attempt + 1));
                if ($wait > 0.0) {
                    return null; // by now there is less time left to wait in line
                }
                continue;
            }
            $hint = str_starts_with($error, 'ERR unknown') ? ': is the module redis-lock loaded?' : '';
            $class = match ($meaning) {
                'lost' => Lost::class,
                'not-alone', 'deadlock' => Busy::class,
                'refused' => Refused::class,
                'passing' => $isRefused ? Refused::class : Unavailable::class,
                default => Misuse::class,
            };
            throw new $class("\"$key\": {$cause->getMessage()}$hint", 0, $cause);
        }
    }

    /**
     * Sends a call, with its own time limit. The connection is closed where the reply did not come: it must not answer
     * the next call.
     *
     * @throws ErrorReply
     */
    public function once(string $key, array $words, float $seconds): mixed
    {
        $redis = $this->redis ??= $this->connect instanceof \Closure ? ($this->connect)() : $this->connect;
        $name = $redis->_prefix($key);
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
            // Zero means PHP's default when a client connects, and no time at all when it is set.
            $redis->setOption(\Redis::OPT_READ_TIMEOUT, (string) ($before ?: ini_get('default_socket_timeout')));
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

    public static function newOwner(string $service): string
    {
        $place = substr(preg_replace('/[^!-~]/', '_', $service.':'.gethostname().':'.getmypid()), 0, 200);

        return $place.':'.bin2hex(random_bytes(16));
    }

    public static function ms(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }

    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
