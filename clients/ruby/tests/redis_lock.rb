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

# RESP2 has a map as a flat array.
def fields(reply) = reply.is_a?(Hash) ? reply : Hash[*reply]
def info(port, key = KEY) = fields(admin(port).call("LOCK.INFO", key) || {})
def session_of(port, key = KEY) = fields(admin(port).call("LOCK.HOLDERS", key)[0] || {}).fetch("session", 0)

def locks(port, **options)
  made = RedisLock.new(port: port, service: "test", **options)
  yield made
ensure
  made.close
end

# The same behind a proxy, whose port is the second.
def proxied(port, **options)
  proxy = Testbed.order("proxy", port: port)["port"]
  locks(proxy, **options) { |mine| yield mine, proxy }
  Testbed.order("end", port: proxy)
end

def wait_for_waiters(port, number, key = KEY)
  eventually("#{number} in line") { info(port, key)["waiters"] == number }
end

# A program of Ruby's own process, that says "ready" and then goes on until its input ends.
def aside(login, program)
  source = "require #{File.expand_path("../redis_lock", __dir__).dump}; LOCKS = RedisLock.new(#{login}); " \
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
      check(session_of(port).positive?, "in a session")
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
    raises(ZeroDivisionError) { mine.lock(KEY) { admin(port).del(KEY) && 1 / 0 } }
    catch(:out) { mine.lock(KEY) { throw :out } }
    same({}, info(port))
  end
end

test "a loss is told where the block is left in the middle" do |port|
  locks(port) do |mine|
    returned = -> { mine.lock(KEY) { admin(port).del(KEY) && (return :done) } }
    broken = -> { mine.lock(KEY) { break admin(port).del(KEY) } }
    thrown = -> { catch(:done) { mine.lock(KEY) { admin(port).del(KEY) && throw(:done) } } }
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
    same(second.token, info(port)["token"])
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
  locks(port, lease: 1) do |mine|
    mine.lock(KEY) do |grant|
      token = grant.token
      sleep 2.5
      grant.check
      same(token, info(port)["token"])
    end
  end
end

test "a fixed lease ends, and may be extended" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY, fixed: 0.3)
    same(0, session_of(port))
    grant.extend(1.0)
    sleep 0.4
    grant.check
    waiting = mine.lock(KEY, fixed: 5, wait: 5)
    check(!grant.held? && waiting.held? && waiting.remaining > 4, "what is known")
    raises(RedisLock::Lost) { grant.check }
    raises(RedisLock::Lost) { grant.release }
    raises(RedisLock::Busy) { mine.lock(KEY, fixed: 1, wait: 0.2) }
    waiting.release
    raises(RedisLock::Misuse) { mine.lock(KEY).extend(1) }
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

test "many locks and waits need few connections and one thread" do |port|
  locks(port) do |mine|
    before = Thread.list.size
    grants = Array.new(100) { |number| mine.lock("many:#{number}") }
    waits = Array.new(20) { |number| Thread.new { mine.lock("many:#{number}", wait: 30) } }
    20.times { |number| wait_for_waiters(port, 1, "many:#{number}") }
    check(mine.instance_variable_get(:@idle).size <= 8, "connections")
    check(Thread.list.size <= before + 21, "threads")
    grants.each(&:release)
    waits.each(&:join)
  end
end

test "a lost lock is told at once" do |port|
  locks(port) do |mine|
    told = Queue.new
    raises(RedisLock::Lost) do
      mine.lock(KEY) do |grant|
        grant.on_lost { told << RedisLock.now }
        begun = RedisLock.now
        admin(port).del(KEY)
        check(told.pop - begun < 2, "at once")
        check(!grant.held? && grant.lost?, "known")
        raises(RedisLock::Lost) { grant.token }
        raises(RedisLock::Lost) { grant.check }
      end
    end
    raises(RedisLock::Lost) { mine.lock(KEY) { |grant| admin(port).del(KEY) && sleep(0.3) } }
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

test "a cut connection loses nothing, and no place in line" do |port|
  locks(port, lease: 2) do |mine|
    mine.lock(KEY) do |grant|
      waiting = Thread.new { mine.lock(KEY, wait: 30) { :in } }
      wait_for_waiters(port, 1)
      admin(port).call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      sleep 2.5
      wait_for_waiters(port, 1)
      grant.check
      grant.release
      same(:in, waiting.value)
    end
  end
end

test "a server that is killed and comes back without its data" do |port|
  locks(port, lease: 3) do |mine|
    grant = mine.lock(KEY)
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
  locks(port, lease: 2) do |mine|
    grant = mine.lock(KEY)
    Testbed.order("kill", port: port)
    took = seconds { eventually("the loss") { grant.lost? } }
    check(took > 1 && took < 10, "it took #{took}")
  end
end

test "a server that hangs holds up nobody for long" do |port|
  locks(port, lease: 30) do |mine|
    grant = mine.lock(KEY)
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
  aside("port: #{port}, lease: 1", "LOCKS.lock(#{KEY.dump}); puts 'ready'; gets") do |pid|
    sleep 1.5
    check(info(port)["owner"].include?(":#{pid}:"), "held")
    Process.kill("KILL", pid)
    locks(port) { |mine| check(seconds { mine.lock(KEY, wait: 20) { :in } } < 10, "a lease later") }
  end
end

test "a process that stood still keeps its locks" do |port|
  work = "LOCKS.lock(#{KEY.dump}) { |grant| puts 'ready'; gets; grant.check }; puts 'released'"
  aside("port: #{port}, lease: 3", work) do |pid, input, output|
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
  aside("port: #{port}", work) { same(1, info(port)["holds"]) }
end

test "what is refused is told at once" do |port|
  admin(port).set("text", "no lock")
  locks(port) do |mine|
    raises(RedisLock::Misuse) { mine.lock("text", wait: 30) }
    raises(RedisLock::Misuse) { mine.lock(KEY, fixed: 0) }
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
  login = Redis::VERSION < "5" ? { url: "redis://#{all["name"]}" } : { name: all["name"] }
  made = RedisLock.new(lease: 20, sentinels: sentinels, role: :master, **login)
  grant = made.lock(KEY)
  replica = all["servers"][1]["port"]
  eventually("the replica") { admin(replica).exists?(KEY) }
  Testbed.order("fail-over", port: replica)
  eventually("a session there") { session_of(replica).positive? }
  grant.check
  grant.release
  made.close
  Testbed.order("end", port: all["servers"][0]["port"])
end

test "a session that has ended costs no lock and no place" do |port|
  locks(port, lease: 10, silence: 1) do |mine|
    grant = mine.lock(KEY)
    waiting = Thread.new { mine.lock(KEY, wait: 30) { :in } }
    wait_for_waiters(port, 1)
    before = session_of(port)
    admin(port).call("REPLICAOF", "127.0.0.1", "1") # ends all sessions
    admin(port).call("REPLICAOF", "NO", "ONE")
    eventually("another session") { ![0, before].include?(session_of(port)) }
    wait_for_waiters(port, 1)
    grant.check
    grant.release
    same(:in, waiting.value)
  end
end

test "a session that an operator ends is a loss" do |port|
  locks(port) do |mine|
    grant = mine.lock(KEY)
    admin(port).call("LOCK.SESSION", "KILL", session_of(port))
    eventually("the loss", 5) { grant.lost? }
    mine.lock(KEY) { :again }
  end
end

test "a release that does not get through is repeated by the loop" do |port|
  proxied(port, lease: 2) do |mine, proxy|
    grant, other = mine.lock(KEY), mine.lock("other")
    Testbed.order("inject", port: proxy, fault: "reset-request", words: "LOCK.RELEASE", times: 1000)
    raises(RedisLock::Unavailable) { grant.release }
    same(1, admin(port).exists(KEY))
    Testbed.order("inject", port: proxy, fault: "reset-request", words: "LOCK.RELEASE", times: 0)
    eventually("free") { info(port).empty? }
    other.check
  end
end

test "a release that is refused ends the lease" do |port|
  locks(port) do |mine|
    grant, other = mine.lock(KEY), mine.lock("other")
    admin(port).call("ACL", "SETUSER", "default", "-lock.release")
    raises(RedisLock::Refused) { grant.release }
    eventually("free", 5) { info(port).empty? }
    admin(port).call("ACL", "SETUSER", "default", "+lock.release")
    other.check
  end
end

test "a grant that nobody knows is released" do |port|
  locks(port, lease: 1) do |mine|
    mine.lock("held") do |grant|
      words = ["LOCK.ACQUIRE", KEY, "a late request", "PX", 60_000, "SESSION", session_of(port, "held"), "HOLDS", 1]
      admin(port).call(*words)
      eventually("free") { info(port).empty? }
      grant.check
    end
  end
end

test "an interrupt of a release waits for its end" do |port|
  proxied(port) do |mine, proxy|
    [->(thread) { thread.raise(Timeout::Error) }, :kill.to_proc].each do |interrupt|
      leave = Queue.new
      thread = Thread.new { mine.lock(KEY) { leave.pop } }
      eventually("held") { info(port).any? }
      Testbed.order("inject", port: proxy, fault: { delay: 500 }, words: "LOCK.RELEASE")
      leave << :now
      eventually("the release") { Testbed.order("lost", port: proxy)["pending"].zero? }
      interrupt.(thread)
      thread.join rescue Timeout::Error
      eventually("free") { info(port).empty? }
    end
  end
end

test "a kill at the moment of the grant gives it back" do |port|
  proxied(port) do |mine, proxy|
    mine.lock("first") { :connected }
    [-> { mine.lock(KEY) }, -> { mine.lock(KEY) { sleep } }].each do |work|
      Testbed.order("inject", port: proxy, fault: { delay: 500 }, words: "LOCK.ACQUIRE")
      thread = Thread.new(&work)
      eventually("the acquire") { Testbed.order("lost", port: proxy)["pending"].zero? }
      thread.kill.join
      eventually("free") { info(port).empty? }
    end
  end
end

test "a process ends without close" do |port|
  programs = { "port: #{port}" => "LOCKS.lock(#{KEY.dump}) { }; LOCKS.lock(#{KEY.dump})", # held, and a server that is away
               "port: 1" => "LOCKS.lock('other') rescue nil" }
  programs.each do |login, program|
    aside(login, "#{program}; puts 'ready'") do |pid|
      eventually("the end") { !Dir.exist?("/proc/#{pid}") || File.read("/proc/#{pid}/stat").include?(") Z") }
    end
  end
end

test "close ends in its time, and leaves nothing" do |port|
  mine = RedisLock.new(port: port)
  Array.new(10) { |number| mine.lock("held:#{number}") }
  waiting = Thread.new { mine.lock("held:1", wait: 30) }
  wait_for_waiters(port, 1, "held:1")
  mine.close
  raises(RedisLock::Misuse) { waiting.value }
  same([0, []], [admin(port).dbsize, admin(port).call("LOCK.SESSION", "LIST")])
  mine = RedisLock.new(port: port)
  mine.lock(KEY)
  Testbed.order("pause", port: port)
  check((took = seconds { mine.close }) < 5, "it took #{took}")
  Testbed.order("resume", port: port)
end

test "what error replies mean" do |_|
  table = JSON.parse(File.read(File.expand_path("../../protocol/errors.json", __dir__)))["errors"]
  told = table.map { |it| [it["begins"], it.values_at("acquire", "move", "release").map(&:to_sym)] }
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

Tests.run(ARGV)
