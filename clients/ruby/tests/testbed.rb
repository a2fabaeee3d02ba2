# frozen_string_literal: true

require "json"
require "timeout"

# Real servers with the module, and proxies: by `testbed serve` (crates/testing/testbed/src/bin/testbed/serve.rs).
module Testbed
  SERVE = "#{ENV.fetch("TESTBED", "cargo run --quiet --package testbed --")} serve"

  def self.order(action, **words)
    @pipe ||= IO.popen(SERVE.split, "r+", chdir: File.expand_path("../../..", __dir__))
    @pipe.puts(JSON.generate({ do: action, **words }))
    answer = JSON.parse(@pipe.gets)
    raise answer["error"] if answer["error"]

    answer
  end
end

Failed = Class.new(StandardError)

def check(holds, what) = holds || raise(Failed, what)
def same(expected, found, what = "what was found") = check(expected == found, "#{what}: #{found.inspect}, not #{expected.inspect}")

def raises(kind)
  yield
rescue kind => e
  e
else
  raise Failed, "no #{kind} was raised"
end

def eventually(what, seconds = 20)
  limit = RedisLock.now + seconds
  until (value = yield)
    check(RedisLock.now < limit, "waited in vain for #{what}")
    sleep 0.01
  end
  value
end

def seconds
  begun = RedisLock.now
  yield
  RedisLock.now - begun
end

# Each test has a server of its own, and half a minute.
class Tests
  @all = {}
  class << self
    attr_reader :all
  end

  def self.run(only)
    failed = 0
    chosen = all.select { |name, _| only.empty? || only.any? { |it| name.include?(it) } }
    chosen.each do |name, test|
      port = Testbed.order("server")["port"]
      Timeout.timeout(60) { test.call(port) }
    rescue Exception => e # rubocop:disable Lint/RescueException
      failed += 1
      puts "#{name}: #{e.class}: #{e.message}", e.backtrace.first(8)
    ensure
      Testbed.order("end", port: port)
    end
    puts "ruby: #{chosen.size - failed} passed, #{failed} failed"
    exit failed.zero?
  end
end

def test(name, &work) = Tests.all[name] = work
