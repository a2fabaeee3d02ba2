# frozen_string_literal: true

require "open3"
require "rbconfig"
require "tempfile"
require "tmpdir"
require_relative "../redis_lock"
require_relative "testbed"

KEY = "lock:orders:42"
Thread.report_on_exception = false

def admin(port) = Redis.new(port: port, timeout: 5)
def info(port, key = KEY) = Hash[*admin(port).call("LOCK.INFO", key)]

def locks(port, **options)
  made = RedisLock.new(port: port, service: "test", **options)
  yield made
ensure
  made.close
end

# The same behind a proxy, whose port is the second.
def proxied(port)
  proxy = Testbed.order("proxy", port: port)["port"]
  locks(proxy) { |mine| yield mine, proxy }
  Testbed.order("end", port: proxy)
end

def wait_for_waiters(port, number, key = KEY)
  eventually("#{number} in line") { info(port, key)["waiters"] == number }
end

# A program of Ruby's own process, that says "ready" and then goes on until its input ends.
def aside(port, program)
  source = "require #{File.expand_path("../redis_lock", __dir__).dump}; LOCKS = RedisLock.new(port: #{port}); " \
           "$stdout.sync = true; #{program}"
  Open3.popen2(RbConfig.ruby, "-e", source) do |input, output, thread|
    same("ready\n", output.gets)
    yield thread.pid, input, output
  ensure
    begin
      Process.kill("KILL", thread.pid)
    rescue Errno::ESRCH
      # It has ended by itself.
    end
  end
end

# What it does.

test "a block holds the lock and gives it back" do |port|
  locks(port) do |mine|
    found = mine.lock(KEY) do |grant|
      same(info(port)["token"], grant.token)
      check(info(port)["owner"].start_with?("test:#{Socket.gethostname}:#{Process.pid}:"), "the owner's name")
      check(mine.holders(KEY)[0]["kept-by"].positive?, "kept")
      raises(RedisLock::Busy) { mine.lock(KEY) { raise Failed } }
      check(grant.held? && grant.remaining > 8 && !grant.lost?, "what is known")
      grant.check
      7
    end
    same([7, {}], [found, info(port)])
  end
end

test "an error of the work gives it back, and is not replaced" do |port|
  locks(port) do |mine|
    raises(ZeroDivisionError) { mine.lock(KEY) { 1 / 0 } }
    same({}, info(port))
    raises(ZeroDivisionError) { mine.lock(KEY) { mine.force_unlock(KEY) && 1 / 0 } }
    catch(:out) { mine.lock(KEY) { throw :out } }
    same({}, info(port))
  end
end

test "a loss is told where the block is left in the middle" do |port|
  locks(port) do |mine|
    returned = -> { mine.lock(KEY) { mine.force_unlock(KEY) && (return :done) } }
    broken = -> { mine.lock(KEY) { break mine.force_unlock(KEY) } }
    thrown = -> { catch(:done) { mine.lock(KEY) { mine.force_unlock(KEY) && throw(:done) } } }
    [returned, broken, thrown].each { |work| raises(RedisLock::Lost, &work) }
    same(7, mine.lock(KEY) { break 7 })
    same({}, info(port))
  end
end

test "without a block, a grant is released by hand" do |port|
  locks(port) do |mine|
    first = mine.lock(KEY)
    first.release
    raises(RedisLock::Misuse) { first.release }
    raises(RedisLock::Misuse) { first.token }
    second = mine.lock(KEY)
    check(second.token > info(port)["token"] - 1, "tokens rise")
    mine.lock("another") { |grant| grant.release } # also inside of its block
  end
  same({}, info(port)) # by close
end

test "who waits stands in line" do |port|
  locks(port) do |mine|
    grant, order = mine.lock(KEY), Queue.new
    threads = Array.new(3) do |number|
      wait_for_waiters(port, number)
      Thread.new { mine.lock(KEY, wait: 30) { order << number } }
    end
    wait_for_waiters(port, 3)
    raises(RedisLock::Busy) { mine.lock(KEY, wait: 0.2) }
    grant.release
    threads.each(&:join)
    same([0, 1, 2], Array.new(3) { order.pop })
  end
end

test "readers share, writers do not; a semaphore has its permits" do |port|
  locks(port) do |mine|
    readers = [mine.shared(KEY), mine.shared(KEY)]
    raises(RedisLock::Busy) { mine.lock(KEY) }
    readers.each(&:release)
    permits = Array.new(2) { mine.permit("two", of: 2) }
    raises(RedisLock::Busy) { mine.permit("two", of: 2) }
    waiting = Thread.new { mine.permit("two", of: 2, wait: 30) { :in } }
    wait_for_waiters(port, 1, "two")
    permits[0].release
    same(:in, waiting.value)
    raises(RedisLock::Misuse) { mine.permit("two", of: 0) }
  end
end

test "a lock outlives its lease, as long as its process lives" do |port|
  locks(port) do |mine|
    mine.lock(KEY, lease: 1) do |grant|
      token = grant.token
      sleep 2.5
      grant.check
      same(token, info(port)["token"])
    end
  end
end

test "a fixed lease ends, and may be extended" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY, fixed: true, lease: 0.3)
    grant.extend(1.0)
    sleep 0.4
    grant.check
    told = Queue.new
    grant.on_lost { told << :lost }
    same(:lost, told.pop)
    raises(RedisLock::Lost) { grant.check }
    raises(RedisLock::Lost) { grant.release }
    kept = mine.lock(KEY, wait: 5)
    raises(RedisLock::Misuse) { kept.extend }
  end
end

test "a circle of waits is found" do |port|
  locks(port) do |mine|
    mine.lock("a", owner: "one")
    mine.lock("b", owner: "two")
    waiting = Thread.new { mine.lock("b", owner: "one", wait: 30) }
    wait_for_waiters(port, 1, "b")
    raises(RedisLock::Deadlock) { mine.lock("a", owner: "two", wait: 30) }
    same("two", info(port, "b")["owner"]) # what it holds it holds still
    raises(RedisLock::Misuse) { mine.lock("a", owner: "one") } # one hold for each owner
    mine.force_unlock("b")
    waiting.join
  end
end

test "an interrupted wait leaves the line" do |port|
  locks(port) do |mine|
    mine.lock(KEY) do
      raises(Timeout::Error) { Timeout.timeout(0.3) { mine.lock(KEY, wait: 30) } }
      wait_for_waiters(port, 0)
      thread = Thread.new { mine.lock(KEY, wait: Float::INFINITY) }
      wait_for_waiters(port, 1)
      thread.kill
      wait_for_waiters(port, 0)
    end
  end
end

test "many locks and waits need few connections and threads" do |port|
  locks(port) do |mine|
    before = Thread.list.size
    grants = Array.new(200) { |number| mine.lock("many:#{number}") }
    same(["lock-keeper"], admin(port).client(:list).map { |it| it["name"] }.grep(/lock/))
    check(Thread.list.size <= before + 1, "one thread")
    grants.each(&:release)
  end
  eventually("no connection") { admin(port).client(:list).none? { |it| it["name"].start_with?("lock") } }
end

# When things fail.

test "a lost lock is told at once" do |port|
  locks(port) do |mine|
    told = Queue.new
    raises(RedisLock::Lost) do
      mine.lock(KEY) do |grant|
        grant.on_lost { told << RedisLock.now }
        begun = RedisLock.now
        mine.force_unlock(KEY)
        check(told.pop - begun < 5, "told within a look")
        check(!grant.held? && grant.lost?, "known")
        raises(RedisLock::Lost) { grant.token }
        raises(RedisLock::Lost) { grant.check }
      end
    end
    raises(RedisLock::Lost) { mine.lock(KEY) { |grant| mine.force_unlock(KEY) && grant.check } }
  end
end

test "another owner's lock is left alone" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY)
    admin(port).del(KEY)
    admin(port).call("LOCK.ACQUIRE", KEY, "another")
    raises(RedisLock::Lost) { grant.release }
    same("another", info(port)["owner"])
  end
end

# An owner that the user names may come back.

test "a late release of all does not meet the next call of a named owner" do |port|
  locks(port) do |mine|
    Testbed.order("stop", port: port)
    raises(RedisLock::Unavailable) { mine.lock(KEY, owner: "job") }
    Testbed.order("restart", port: port)
    mine.lock(KEY, owner: "job", wait: 10) do
      mine.lock("another", wait: 10) { sleep 1 } # by which all that was left has been sent
      same("job", info(port)["owner"])
    end
  end
end

test "what another connection keeps is not taken back" do |port|
  locks(port) do |first|
    locks(port) do |second|
      lost = first.lock(KEY, owner: "job")
      grant = second.lock(KEY, owner: "job")
      eventually("the loss") { lost.lost? }
      check(raises(RedisLock::Lost) { lost.release }.message.include?("another connection"), "why")
      keeps = second.holders(KEY)[0]["kept-by"]
      first.lock("other") { sleep 1 }
      same(keeps, second.holders(KEY)[0]["kept-by"])
      grant.check
      grant.release
    end
  end
end

test "a release in the name of its owner is a loss" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY, owner: "job")
    grant.check
    admin(port).call("LOCK.RELEASE", KEY, "job")
    raises(RedisLock::Lost) { grant.check }
  end
end

test "a cut connection loses nothing" do |port|
  locks(port) do |mine|
    mine.lock(KEY, lease: 2) do |grant|
      waiting = Thread.new { mine.lock(KEY, wait: 30) { :in } }
      wait_for_waiters(port, 1)
      admin(port).call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      eventually("kept again") { mine.holders(KEY)[0]["kept-by"].positive? }
      wait_for_waiters(port, 1)
      grant.check
      grant.release
      same(:in, waiting.value)
    end
  end
end

test "a server that is killed and comes back without its data" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY, lease: 3)
    waiting = Thread.new { mine.lock("other", wait: 30) }
    Testbed.order("kill", port: port)
    check(seconds { raises(RedisLock::Unavailable) { mine.lock("third") } } < 6, "the time limit of an acquire")
    Testbed.order("restart", port: port)
    eventually("the loss") { grant.lost? }
    raises(RedisLock::Lost) { grant.release }
    waiting.join
    mine.lock(KEY) { :again }
  end
end

test "a server that stays away is a loss a lease later" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY, lease: 2)
    Testbed.order("kill", port: port)
    took = seconds { eventually("the loss") { grant.lost? } }
    check(took > 1 && took < 10, "it took #{took}")
  end
end

test "a server that hangs holds up nobody for long" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY, lease: 30)
    Testbed.order("pause", port: port)
    check(seconds { raises(RedisLock::Unavailable) { mine.lock("other") } } < 7, "the time limit of an acquire")
    check(seconds { raises(RedisLock::Unavailable) { mine.lock("other", wait: 1) } } < 9, "the time limit of a wait")
    check(seconds { raises(RedisLock::Unavailable) { grant.check } } < 7, "the time limit of a check")
    check(seconds { raises(RedisLock::Unavailable) { grant.release } } < 7, "the time limit of a release")
    Testbed.order("resume", port: port)
    eventually("what was left to be sent") { info(port).empty? && info(port, "other").empty? }
  end
end

test "a reply that is lost" do |port|
  proxied(port) do |mine, proxy|
    Testbed.order("inject", port: proxy, fault: "cut", words: "LOCK.ACQUIRE")
    mine.lock(KEY) { same(1, info(port)["holds"]) }
    grant = mine.lock(KEY)
    Testbed.order("inject", port: proxy, fault: "cut", words: "LOCK.RELEASE")
    grant.release
    same({}, info(port))
  end
end

test "a process that is killed frees its locks a lease later" do |port|
  aside(port, "LOCKS.lock(#{KEY.dump}, lease: 1); puts 'ready'; gets") do |pid|
    sleep 1.5
    check(info(port)["owner"].include?(":#{pid}:"), "held")
    Process.kill("KILL", pid)
    locks(port) { |mine| check(seconds { mine.lock(KEY, wait: 20) { :in } } < 10, "a lease later") }
  end
end

test "a process that stood still keeps its locks" do |port|
  work = "LOCKS.lock(#{KEY.dump}, lease: 3) { |grant| puts 'ready'; gets; grant.check }; puts 'released'"
  aside(port, work) do |pid, input, output|
    Process.kill("STOP", pid)
    sleep 4
    check(info(port)["owner"].include?(":#{pid}:"), "held")
    admin(port).call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") # and its connection is cut then
    Process.kill("CONT", pid)
    input.puts
    same("released\n", output.gets)
  end
end

test "a forked child holds nothing, and takes locks of its own" do |port|
  work = "LOCKS.lock(#{KEY.dump}) { |grant| " \
         "child = fork { exit!((LOCKS.lock('own') { !grant.held? }) && (grant.check rescue $!.class) == RedisLock::Misuse) }; " \
         "puts Process.wait2(child)[1].success? ? 'ready' : 'failed'; grant.check; gets }"
  aside(port, work) { same(1, info(port)["holds"]) }
end

test "what is refused is told at once" do |port|
  admin(port).set("text", "no lock")
  locks(port) do |mine|
    raises(RedisLock::Misuse) { mine.lock("text", wait: 30) }
    raises(RedisLock::Misuse) { mine.lock(KEY, lease: 0.1) }
    raises(RedisLock::Misuse) { mine.lock(KEY, wait: -1) }
  end
  admin(port).call("ACL", "SETUSER", "nobody", "on", ">secret", "~*", "-@all", "+auth", "+ping", "+client")
  locks(port, username: "nobody", password: "secret") { |mine| raises(RedisLock::Refused) { mine.lock(KEY, wait: 30) } }
  locks(port, username: "nobody", password: "wrong") { |mine| raises(RedisLock::Refused) { mine.lock(KEY, wait: 30) } }
  closed = RedisLock.new(port: port)
  closed.close
  raises(RedisLock::Misuse) { closed.lock(KEY) }
end

test "by a Sentinel, over a failover" do |_|
  all = Testbed.order("sentinels")
  sentinels = all["sentinels"].map { |it| { host: "127.0.0.1", port: it["port"] } }
  made = RedisLock.new(url: "redis://#{all["name"]}", sentinels: sentinels, role: :master)
  grant = made.lock(KEY, lease: 20)
  replica = all["servers"][1]["port"]
  eventually("the replica") { admin(replica).exists?(KEY) }
  Testbed.order("fail-over", port: replica)
  eventually("kept there") { (made.holders(KEY).dig(0, "kept-by") || 0).positive? rescue RedisLock::Unavailable && nil }
  grant.check
  grant.release
  made.close
  Testbed.order("end", port: all["servers"][0]["port"])
end

test "what error replies mean" do |_|
  table = JSON.parse(File.read(File.expand_path("../../protocol/errors.json", __dir__)))["errors"]
  told = table.map { |it| [it["begins"], it.values_at("acquire", "renew", "release").map(&:to_sym)] }
  same(told.to_h, RedisLock::MEANINGS)
  texts = table.map { |it| "#{it["begins"]} and so on" }
  first = ->(names, text) { names.find { |it| text.start_with?(it) } }
  same(texts.map { |it| first.(told.map(&:first), it) }, texts.map { |it| first.(RedisLock::MEANINGS.keys, it) })
end

test "the first screens of the README" do |port|
  programs = File.read(File.expand_path("../README.md", __dir__)).scan(/```ruby\n(.*?)```/m).flatten
  programs.each do |program|
    text = program.gsub("6379", port.to_s).gsub('require_relative "redis_lock"', "require #{File.expand_path("../redis_lock", __dir__).dump}")
    output, status = Open3.capture2e(RbConfig.ruby, "-e", text)
    check(status.success?, output)
    check(output.match?(/\Afence writes with \d{16}$/), output)
  end
  check(programs.any?, "programs")
end

require_relative "threads"
require_relative "leaving"
Tests.run(ARGV)
