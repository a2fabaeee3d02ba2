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

require_once __DIR__.'/RedisLock.php';

/**
 * A store of Symfony Lock on the module redis-lock, by phpredis: waiters queue in the server, readers share, and each
 * grant has a fencing token.
 */
final class RedisLockStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    use ExpiringStoreTrait;

    private Calls $calls;

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
        \Redis|\RedisCluster|\Closure $connect,
        private float $initialTtl = 300.0,
        private ?float $wait = null,
        float $reply = 1.0,
    ) {
        self::positive($initialTtl);
        $this->calls = new Calls($connect, $reply);
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
        return self::state($key)['token'] ?? throw new LockConflictedException("No lock was acquired with \"$key\".");
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
            $this->told(Calls::MOVE, fn () => $this->calls->call(Calls::MOVE, (string) $key, ['LOCK.RENEW', $state['owner'], 'TOKEN', $state['token'], 'PX', Calls::ms($ttl)]));
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
            $this->told(Calls::RELEASE, fn () => $this->calls->release((string) $key, $state['owner'], $state['token']));
        } catch (LockConflictedException) {
            // it was lost before, or released by a call whose reply was
        } catch (LockReleasingException $error) {
            if (!$error->getPrevious()?->getPrevious() instanceof ErrorReply) {
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
            $this->told(Calls::MOVE, fn () => $this->calls->call(Calls::MOVE, (string) $key, ['LOCK.FENCE', $state['token']]));
        } catch (LockConflictedException) {
            return false;
        }

        return true;
    }

    /** Takes the lock, or takes it again with an owner that has it. */
    private function acquire(Key $key, array $mode, float $wait): void
    {
        $state = self::state($key);
        $owner = null === $state || isset($state['late']) ? Calls::newOwner('symfony') : $state['owner'];
        $key->resetLifetime();
        try {
            $take = fn () => $this->calls->acquire((string) $key, $owner, $mode, $this->initialTtl, $wait);
            [$token, $until] = $this->told(Calls::ACQUIRE, $take);
        } catch (\Throwable $error) {
            // A conflict leaves what the key had, and nothing new unless a call before it was not answered.
            if (!$error instanceof LockConflictedException || null === $state && $this->calls->unanswered) {
                $this->calls->giveUp((string) $key, $owner) || self::mayBeReleased($key);
            }
            throw $error;
        }
        $key->reduceLifetime($until - Calls::now());
        $key->setState(self::class, ['owner' => $owner, 'token' => $token, 'until' => self::at($key->getRemainingLifetime())]);
        $this->checkNotExpired($key);
    }

    /** A release without a reply may arrive late: it must not meet what this key takes next, so that has another owner. */
    private static function mayBeReleased(Key $key): void
    {
        if (null !== $state = self::state($key)) {
            $key->setState(self::class, ['late' => true] + $state);
        }
    }

    /** Makes a call, with the errors of Symfony Lock. */
    private function told(int $kind, \Closure $call): mixed
    {
        try {
            return $call();
        } catch (LockError $error) {
            throw match (true) {
                $error instanceof Lost, $error instanceof Busy => new LockConflictedException($error->getMessage(), 0, $error),
                Calls::RELEASE === $kind => new LockReleasingException($error->getMessage(), 0, $error),
                default => new LockAcquiringException($error->getMessage(), 0, $error),
            };
        }
    }

    /** @return array{owner: string, token: int, until?: float, late?: true}|null */
    private static function state(Key $key): ?array
    {
        return $key->hasState(self::class) ? $key->getState(self::class) : null;
    }

    private static function positive(float $ttl): void
    {
        if ($ttl <= 0) {
            throw new InvalidTtlException("A lease must be longer than 0 s, not $ttl.");
        }
    }

    /** The time of day in so many seconds: a key may go on in another process. */
    private static function at(?float $seconds): float
    {
        return microtime(true) + (float) $seconds;
    }
}
