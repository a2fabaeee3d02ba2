# frozen_string_literal: true

# Several threads at a time, and what interrupts one.

test "an interrupt of a release waits for its end" do |port|
  proxied(port) do |mine, proxy|
    [->(thread) { thread.raise(Timeout::Error) }, :kill.to_proc].each do |interrupt|
      leave = Queue.new
      thread = Thread.new { mine.lock(KEY, lease: 1) { leave.pop } }
      eventually("held") { info(port).any? }
      Testbed.order("inject", port: proxy, fault: { delay: 500 }, words: "PING") # the release begins with it
      leave << :now
      eventually("the release") { Testbed.order("lost", port: proxy)["pending"].zero? }
      interrupt.(thread)
      thread.join rescue Timeout::Error
      eventually("free") { info(port).empty? }
    end
  end
end

test "two threads with one owner do not get one grant" do |port|
  locks(port) do |mine|
    other = mine.lock(KEY)
    thread = Thread.new { mine.lock(KEY, owner: "job", wait: 30) { sleep } }
    wait_for_waiters(port, 1)
    2.times do # in line, and held
      raises(RedisLock::Misuse) { mine.lock(KEY, owner: "job", wait: 30) }
      raises(RedisLock::Misuse) { mine.lock(KEY, owner: "job") }
      other.release if other.held?
      eventually("the grant") { info(port)["owner"] == "job" }
    end
    thread.kill.join
    mine.lock(KEY, owner: "job") { :again }
  end
end

test "who is told that it is busy calls nobody else's wait off" do |port|
  locks(port) do |mine|
    locks(port) do |same_name|
      other = mine.lock(KEY)
      waiting = Thread.new { mine.lock(KEY, owner: "job", wait: 30) { :in } }
      wait_for_waiters(port, 1)
      place = admin(port).call("LOCK.WAITERS", KEY)[0][3] # its client
      raises(RedisLock::Busy) { same_name.lock(KEY, owner: "job") }
      raises(RedisLock::Busy) { same_name.lock(KEY, owner: "job", wait: 0.1) }
      same(place, admin(port).call("LOCK.WAITERS", KEY)[0][3])
      other.release
      same(:in, waiting.value)
    end
  end
end

test "many threads on a server that hangs wait no longer than one" do |port|
  locks(port) do |mine|
    grants = Array.new(10) { |number| mine.lock("held:#{number}", lease: 2) }
    Testbed.order("pause", port: port)
    told, stop = Queue.new, false
    begun = RedisLock.now
    grants[0].on_lost { told << RedisLock.now - begun }
    threads = Array.new(12) { |number| Thread.new { seconds { mine.lock("other:#{number}") rescue RedisLock::Unavailable } } }
    longest = threads.map(&:value).max
    check(longest < 7, "the time limit of an acquire: #{longest}")
    threads = Array.new(8) { |number| Thread.new { (mine.lock("other:#{number}") rescue nil) until stop } }
    check((took = told.pop) < 12, "the loss: #{took}")
    stop = true
    threads.each(&:join)
    Testbed.order("resume", port: port)
  end
end

test "close ends in its time, and leaves nothing that seems held" do |port|
  mine = RedisLock.new(port: port)
  grants = Array.new(10) { |number| mine.lock("held:#{number}", lease: 20) }
  Testbed.order("pause", port: port)
  check((took = seconds { mine.close }) < 7, "it took #{took}")
  Testbed.order("resume", port: port)
  check(grants.none?(&:held?), "held")
end

test "a listener that fails keeps no other from being told" do |port|
  locks(port) do |mine|
    grant, told = mine.lock(KEY), Queue.new
    grant.on_lost { raise Failed }
    grant.on_lost { told << :lost }
    mine.force_unlock(KEY)
    same(:lost, told.pop)
  end
end

# A server with TLS, and what makes it another certificate.
def with_tls
  Dir.mktmpdir do |folder|
    port = TCPServer.open("127.0.0.1", 0) { |it| it.addr[1] }
    certify = lambda do
      system("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "#{folder}/key", "-out", "#{folder}/cert", err: File::NULL)
    end
    certify.()
    File.write("#{folder}/known", File.read("#{folder}/cert"))
    settings = { "tls-port": port.to_s, "tls-cert-file": "#{folder}/cert", "tls-key-file": "#{folder}/key",
                 "tls-ca-cert-file": "#{folder}/cert", "tls-auth-clients": "no" }
    plain = begin
      Testbed.order("server", config: settings)["port"]
    rescue RuntimeError => e
      next puts "left out: this server has no TLS" if e.message.include?("TLS support")

      raise
    end
    yield plain, { url: "rediss://127.0.0.1:#{port}", ssl_params: { ca_file: "#{folder}/known" } }, certify
    Testbed.order("end", port: plain)
  end
end

test "what TLS does not accept is told as unavailable, and a loss all the same" do |_|
  with_tls do |plain, login, certify|
    mine = RedisLock.new(**login)
    grant = mine.lock(KEY, lease: 2)
    certify.() # another, which is not known
    Testbed.order("stop", port: plain)
    Testbed.order("restart", port: plain)
    eventually("the loss") { grant.lost? }
    raises(RedisLock::Unavailable) { mine.lock("other") }
    mine.close
  end
end

test "a process ends without close" do |port|
  programs = ["LOCKS.lock(#{KEY.dump}) { }; LOCKS.lock(#{KEY.dump})", # held, and a server that is away
              "RedisLock.new(port: 1).lock('other') rescue nil"]
  programs.each do |program|
    aside(port, "#{program}; puts 'ready'") { |pid| eventually("the end") { !Dir.exist?("/proc/#{pid}") || File.read("/proc/#{pid}/stat").include?(") Z") } }
  end
end
