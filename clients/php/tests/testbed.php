<?php

declare(strict_types=1);

/** Real servers with the module: by `testbed serve` (crates/testing/testbed/src/bin/testbed/serve.rs). */
final class Testbed
{
    private static $pipes;
    private static $process;

    public static function order(string $do, array $words = []): array
    {
        if (!self::$process) {
            $testbed = explode(' ', getenv('TESTBED') ?: 'cargo run --quiet --package testbed --');
            self::$process = proc_open([...$testbed, 'serve'], [['pipe', 'r'], ['pipe', 'w']], self::$pipes, dirname(__DIR__, 3));
        }
        fwrite(self::$pipes[0], json_encode(['do' => $do] + $words, JSON_FORCE_OBJECT)."\n");
        $answer = json_decode(fgets(self::$pipes[1]), true);
        if (isset($answer['error'])) {
            throw new RuntimeException($answer['error']);
        }

        return $answer;
    }
}

/** What ends a test. */
final class Failed extends Exception
{
}

function check(bool $holds, string $what): void
{
    $holds || throw new Failed($what);
}

function same(mixed $expected, mixed $found, string $what = 'what was found'): void
{
    check($expected === $found, "$what: ".var_export($found, true).', not '.var_export($expected, true));
}

function throws(string $class, callable $call): Throwable
{
    try {
        $call();
    } catch (Throwable $error) {
        check($error instanceof $class, get_class($error).": {$error->getMessage()}, not $class");

        return $error;
    }
    throw new Failed("no $class was thrown");
}

function eventually(callable $holds, string $what, float $seconds = 20): mixed
{
    for ($end = microtime(true) + $seconds; !$value = $holds(); usleep(10_000)) {
        check(microtime(true) < $end, "waited in vain for $what");
    }

    return $value;
}

/** Runs this in a process of its own, whose end is waited for by what is returned. */
function aside(callable $work): callable
{
    $pid = pcntl_fork();
    if (0 === $pid) {
        try {
            $work();
            $code = 0;
        } catch (Throwable $error) {
            fwrite(STDERR, get_class($error).": {$error->getMessage()}\n");
            $code = 1;
        }
        posix_kill(getmypid(), 0 === $code ? SIGKILL : SIGTERM); // neither destructors nor the test bed's end
    }

    return function () use ($pid): void {
        pcntl_waitpid($pid, $status);
        same(SIGKILL, pcntl_wtermsig($status), 'the end of the process');
    };
}

/** Runs all functions that begin with `test_`, each with a server of its own. */
function main(array $only): never
{
    $passed = $failed = 0;
    foreach (get_defined_functions()['user'] as $name) {
        if (!str_starts_with($name, 'test_') || $only && !array_filter($only, fn ($it) => str_contains($name, $it))) {
            continue;
        }
        $port = Testbed::order('server')['port'];
        try {
            $name($port);
            ++$passed;
        } catch (Throwable $error) {
            ++$failed;
            echo "$name: {$error}\n";
        }
        Testbed::order('end', ['port' => $port]);
    }
    echo "php: $passed passed, $failed failed\n";
    exit($failed ? 1 : 0);
}
