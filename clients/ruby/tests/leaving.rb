# frozen_string_literal: true

# What is left behind by what failed, was repeated, closed or forked: nothing.

def kept_by(port, key = KEY) = Hash[*(admin(port).call("LOCK.HOLDERS", key)[0] || [])].fetch("kept-by", 0)

test "a shorter lease that was not answered is believed" do |port|
  proxied(port) do |mine, proxy|
    grant = mine.lock(KEY, lease: 60, fixed: true)
    admin(port).config(:set, "min-replicas-to-write", "1")
    raises(RedisLock::Unavailable) { grant.extend(2) }
    check(grant.remaining > 30, "what was refused changes nothing")
    admin(port).config(:set, "min-replicas-to-write", "0")
    Testbed.order("inject", port: proxy, fault: "cut", words: "LOCK.RENEW", times: 200)
    raises(RedisLock::Unavailable) { grant.extend(2) }
    check(grant.remaining <= 2, "#{grant.remaining} are left")
    eventually("the loss", 5) { grant.lost? }
  end
end

test "force_unlock is sent once" do |port|
  proxied(port) do |mine, proxy|
    mine.force_unlock(KEY)
    Testbed.order("inject", port: proxy, fault: "cut", words: "DEL")
    raises(RedisLock::Unavailable) { mine.force_unlock(KEY) }
    same("2", admin(port).info("commandstats")["del"]["calls"])
  end
end

test "a late release does not meet what another process has in its owner's name" do |port|
  proxied(port) do |mine, proxy|
    grant = mine.lock(KEY, owner: "job")
    Testbed.order("swallow", port: proxy)
    raises(RedisLock::Unavailable) { grant.release }
    locks(port) do |second|
      other = second.lock(KEY, owner: "job")
      Testbed.order("speak", port: proxy)
      eventually("an answer") { mine.lock("third") rescue RedisLock::Unavailable && nil }
      sleep 0.5 # two looks
      other.check
    end
  end
end

test "what another process takes over in the moment of a release is not released" do |port|
  locks(port) do |mine|
    locks(port) do |second|
      grant, other = mine.lock(KEY, owner: "job", lease: 30), nil
      mine.define_singleton_method(:hear) do |held|
        super(held)
        other = second.lock(KEY, owner: "job", lease: 30)
      end
      raises(RedisLock::Lost) { grant.release }
      other.check
      other.release
    end
  end
end

test "a late answer to a wait takes nothing from who asked later" do |port|
  [false, true].each do |called_off|
    proxied(port) do |mine, proxy|
      locks(port) do |second|
        admin(port).call("LOCK.ACQUIRE", KEY, "other", "EX", 60)
        Testbed.order("inject", port: proxy, fault: { delay: 900 }, words: "BLOCK")
        told = Queue.new
        waiting = Thread.new do
          mine.lock(KEY, owner: "job", lease: 30, wait: 30)
        rescue StandardError => e
          told << e
        end
        wait_for_waiters(port, 1)
        admin(port).call("LOCK.RELEASE", KEY, "other")
        other = second.lock(KEY, owner: "job", lease: 30)
        called_off ? waiting.kill.join : check(told.pop.is_a?(RedisLock::Lost), "lost")
        other.check
        same(true, kept_by(port) > 0)
        other.release
      end
    end
  end
end

test "what may not be released is kept for nobody" do |port|
  admin(port).call("ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all")
  locks(port, username: "worker", password: "secret") do |mine|
    grant, other = mine.lock(KEY, lease: 1), mine.lock("other", lease: 30)
    admin(port).call("ACL", "SETUSER", "worker", "-lock.release")
    raises(RedisLock::Refused) { grant.release }
    eventually("free") { info(port).empty? }
    other.check
    thread = Thread.new { mine.lock(KEY, lease: 1, wait: 60) { sleep } }
    eventually("held") { info(port).any? }
    thread.kill.join
    eventually("free") { info(port).empty? }
    admin(port).call("ACL", "SETUSER", "worker", "+lock.release")
    grant = mine.lock(KEY, lease: 1)
    admin(port).config(:set, "min-replicas-to-write", "1")
    raises(RedisLock::Unavailable) { grant.release }
    eventually("free") { info(port).empty? }
    admin(port).config(:set, "min-replicas-to-write", "0")
    other.check
  end
end

test "a release that could not be sent has not been carried out" do |port|
  locks(port, release: 10) do |mine|
    grant = mine.lock(KEY, lease: 20)
    Testbed.order("kill", port: port)
    thread = Thread.new { grant.release }
    eventually("the release") { !grant.held? }
    sleep 0.2
    Testbed.order("restart", port: port)
    raises(RedisLock::Lost) { thread.value }
  end
end

test "what closes while a call is repeated has no connection after it" do |port|
  locks(port, reply: 5) do |mine|
    mine.lock("first") { :connected }
    Testbed.order("kill", port: port)
    thread = Thread.new { mine.lock(KEY, lease: 1) }
    eventually("the call") { thread.stop? }
    mine.close
    Testbed.order("restart", port: port)
    raises(RedisLock::Error) { thread.value }
    eventually("free") { info(port).empty? }
    same([], admin(port).call("CLIENT", "LIST").lines.grep(/lock-keeper/))
  end
end

test "what closes while a wait connects calls the wait off" do |port|
  proxied(port) do |mine, proxy|
    locks(port) do |other|
      other.lock(KEY)
      mine.lock("first") { :connected }
      Testbed.order("inject", port: proxy, fault: { delay: 1000 }, words: "lock-wait")
      thread = Thread.new { mine.lock(KEY, wait: 60) }
      eventually("the connection") { Testbed.order("lost", port: proxy)["pending"].zero? }
      mine.close
      raises(RedisLock::Misuse) { Timeout.timeout(5) { thread.value } }
      same(0, info(port)["waiters"])
    end
  end
end

test "an id of before a restart is anybody's" do |_|
  port = Testbed.order("server", config: { appendonly: "yes" })["port"]
  id = -> { Redis.new(port: port).then { |it| it.call("CLIENT", "ID").tap { |_| it.close } } }
  nil while id.() < 1000
  locks(port) do |one|
    locks(port) do |two|
      first, own = one.lock(KEY, owner: "job", lease: 30), kept_by(port)
      Testbed.order("stop", port: port)
      Testbed.order("restart", port: port)
      eventually("kept again") { (kept_by(port).positive? rescue nil) }
      check(kept_by(port) < own - 1, "the server counts anew")
      nil while id.() < own - 1
      second = two.lock(KEY, owner: "job", lease: 30)
      same(own, kept_by(port), "the id")
      eventually("the loss") { first.lost? }
      second.check
    end
  end
  Testbed.order("end", port: port)
end

test "a kill at the moment of the grant gives it back" do |port|
  proxied(port) do |mine, proxy|
    [-> { mine.lock(KEY) }, -> { mine.lock(KEY) { sleep } }].each do |work|
      Testbed.order("inject", port: proxy, fault: { delay: 500 }, words: "LOCK.ACQUIRE")
      thread = Thread.new(&work)
      eventually("the acquire") { Testbed.order("lost", port: proxy)["pending"].zero? }
      thread.kill.join
      eventually("free") { info(port).empty? }
    end
  end
end

test "a server that is no primary any more is left" do |port|
  locks(port) do |mine|
    mine.lock("first") { :connected }
    keeper = -> { admin(port).call("CLIENT", "LIST").lines.grep(/name=lock-keeper/).map { |it| it[/id=(\d+)/, 1] } }
    before = keeper.()
    admin(port).call("REPLICAOF", "127.0.0.1", "1")
    raises(RedisLock::Unavailable) { mine.lock(KEY) }
    admin(port).call("REPLICAOF", "NO", "ONE")
    mine.lock(KEY) { check((before & keeper.()).empty?, "the same connection") }
  end
end

test "a forked child leaves its parent's connections and listeners alone" do |_|
  with_tls do |plain, login, _|
    mine = RedisLock.new(**login)
    grant, told = mine.lock(KEY), File.join(Dir.mktmpdir, "told")
    grant.on_lost { File.write(told, "lost") }
    kept = kept_by(plain)
    [-> { mine.lock("own") { :held } }, -> { mine.close }].each do |work|
      child = fork do
        work.()
        sleep 0.2
      ensure
        exit!($!.nil?)
      end
      check(Process.wait2(child)[1].success?, "the child")
    end
    sleep 0.2
    grant.check
    same(kept, kept_by(plain), "the connection")
    check(!File.exist?(told), "the child has told a loss")
    mine.close
  end
end

test "what is called off takes nothing from who asked later, whatever the name is" do |port|
  [["job", {}], [:job, {}], ["jöb".b, {}], ["job", { fixed: true }]].each do |owner, options|
    proxied(port) do |mine, proxy|
      locks(port) do |second|
        admin(port).call("LOCK.ACQUIRE", KEY, "other", "EX", 60)
        Testbed.order("inject", port: proxy, fault: { delay: 900 }, words: "BLOCK")
        waiting = Thread.new { mine.lock(KEY, owner: owner, lease: 30, wait: 30, **options) }
        wait_for_waiters(port, 1)
        admin(port).call("LOCK.RELEASE", KEY, "other")
        other = second.lock(KEY, owner: owner.to_s.dup.force_encoding("UTF-8"), lease: 30)
        waiting.kill.join
        other.check
        check(kept_by(port) > 0, "kept")
        other.release
      end
    end
  end
end

test "a grant whose keeper is replaced before it is known is kept by the next one" do |port|
  locks(port) do |mine|
    own = admin(port)
    mine.define_singleton_method(:watch) do |*grant|
      own.call("CLIENT", "KILL", "ID", @keeper.call("CLIENT", "ID"))
      begin
        ask(["PING"])
      rescue StandardError
        retry
      end
      super(*grant)
    end
    grant = mine.lock(KEY, lease: 1, keep: 1)
    sleep 3 # three leases
    grant.check
    same(1, admin(port).call("EXISTS", KEY))
    grant.release
  end
end
