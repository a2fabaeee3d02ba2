# frozen_string_literal: true

require "monitor"
require "redis"
require "securerandom"
require "socket"

# Distributed locks of the module redis-lock, for threads, on redis-rb: fair, kept by the server, with fencing tokens.
#
#   LOCKS = RedisLock.new(url: "redis://localhost:6379", service: "orders")   # one for the process
#   LOCKS.lock("lock:orders:42", wait: 10) { |grant| puts grant.token }
#
# All times are in seconds.
class RedisLock
  # What all errors of this class are. What caused one is its `cause`.
  class Error < StandardError; end
  # Others hold the lock, or are in line for it, and the time to wait is over.
  class Busy < Error; end
  # The grant has ended otherwise than by its release, or nothing has been heard of it for a lease.
  class Lost < Error; end
  # Waiting would create a deadlock cycle. Release what this owner holds, then begin again.
  class Deadlock < Error; end
  # A hold was asked for that bears fewer holders than the lock has now.
  class NotAlone < Error; end
  # The server refuses: no right, a wrong password, memory full, or the module is not loaded.
  class Refused < Error; end
  # The server could not be reached, or gave no answer, in time.
  class Unavailable < Error; end
  # Wrong arguments, another type of key, closed locks, a second release.
  class Misuse < Error; end

  # What an error reply means, by the words that it begins with, for acquire, renew and release: the first that fit
  # count. It says what clients/protocol/errors.json says; a test compares the two.
  MEANINGS = {
    %w[NOTHELD NOTOWNER FENCED] => %i[lost lost lost],
    %w[WRONGTYPE] => %i[misuse lost lost],
    %w[NOTALONE] => %i[not-alone not-alone misuse],
    %w[DEADLOCK] => %i[deadlock misuse misuse],
    ["MAXWAITERS", "OOM", "AHEAD", "ERR unknown command", "ERR KEEP needs the command CLIENT",
     "ERR no fencing token is left"] => %i[refused refused refused],
    # While a grant stands, what bars its renewal may pass.
    ["NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "NOPROTO", "ERR invalid password", "ERR AUTH",
     "ERR Protocol error: unauthenticated", "ERR a fault inside the module"] => %i[refused passing refused],
    ["ERR max number of clients"] => %i[passing passing passing],
    %w[ERR CROSSSLOT] => %i[misuse misuse misuse],
    %w[LOADING BUSY NOREPLICAS MISCONF READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK
       REDIRECT] => %i[passing passing passing],
    [""] => %i[misuse misuse misuse]
  }.flat_map { |begins, classes| begins.map { |it| [it, classes] } }.to_h.freeze
  KINDS = { lost: Lost, "not-alone": NotAlone, deadlock: Deadlock, refused: Refused, passing: Unavailable,
            misuse: Misuse }.freeze
  ACQUIRE, RENEW, RELEASE = 0, 1, 2
  TAKEN_OVER = "another connection keeps it now"
  GONE = [Redis::BaseConnectionError, Redis::ProtocolError, IOError, SystemCallError, SocketError,
          *(OpenSSL::SSL::SSLError if defined?(OpenSSL::SSL))].freeze
  DAY = 86_400.0
  FORKED = Mutex.new
  private_constant :KINDS, :ACQUIRE, :RENEW, :RELEASE, :TAKEN_OVER, :GONE, :DAY, :FORKED

  # One hold of a lock.
  class Grant
    attr_reader :key, :owner, :lease, :keep
    # What the locks know of it; they alone change it.
    attr_accessor :state, :why, :sent
    attr_reader :listeners, :pid, :named

    def initialize(locks, request, owner, reply, sent)
      @locks, @owner, @token, @sent = locks, owner, reply[0], sent
      @key, @lease, @keep, @named = request.key, request.lease, request.keep, request.named
      @state, @listeners, @pid = :held, [], Process.pid
    end

    # The fencing token: it rises from grant to grant. Raises where the lock is known not to be held.
    def token
      must_stand
      @token
    end

    # Whether it is held, as far as is known here: neither released nor lost.
    def held? = @state == :held && @pid == Process.pid

    def lost? = @state == :lost

    # For how many seconds it is known to be held, without another word of the server.
    def remaining = held? ? [@sent + @lease - RedisLock.now, 0.0].max : 0.0

    # Makes sure, by asking the server, that the lock is held. Raises Lost, Unavailable.
    def check = @locks.send(:check, self)

    # A fixed lease begins anew, of this length.
    def extend(seconds = @lease) = @locks.send(:extend_lease, self, seconds)

    # Gives it back. Raises Lost where it was lost, Unavailable where the server gave no answer.
    def release = Thread.handle_interrupt(Object => :never) { @locks.send(:release, self) }

    # Calls this block, once and in a thread of its own, when the lock is lost.
    def on_lost(&block)
      @listeners << block
      block.call if lost? && @listeners.delete(block)
    end

    def must_stand
      raise Misuse, "#{@key}: held by the parent process, not by this one" if @pid != Process.pid
      raise Misuse, "#{@key}: released" if @state == :released
      raise Lost, "#{@key}: #{@why}" if lost?
    end

    def inspect = "#<RedisLock::Grant #{@key} token=#{@token} #{@state}>"

    # The token, and the lease, as the locks use them.
    def words(command) = ["LOCK.#{command}", @key, @owner, "TOKEN", @token]
    def renewed(reply, sent) = (@lease, @sent = reply[3] / 1000.0, sent if sent >= @sent)
    def known = [@lease, @sent]
    def known=(it)
      @lease, @sent = it
    end
  end

  Request = Struct.new(:key, :mode, :wait, :lease, :keep, :owner, :named, :unsure, :on)
  private_constant :Request

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # `service` is the first part of each owner's name. `reply` and `release` limit how long a reply, and a release,
  # may take. All else is for `Redis.new`: url, password, ssl, sentinels …
  def initialize(service: "app", reply: 1.0, release: 2.0, **redis)
    @service, @reply, @release, @options = service, reply, release, redis
    @monitor = Monitor.new
    begin_anew
  end

  # The lock for one holder. With a block, it is released at the end of that; without, the grant is to be released.
  #
  # `wait`: how long to wait in line (Float::INFINITY: for ever). `lease`: how long others wait when this process has
  # died. `keep`: how long it may stand still and keep the lock. `fixed`: nobody renews the lease. `owner`: a name for
  # what holds, or waits for, several locks: by it the server finds circles of waits. Where several processes keep
  # one lock by one name, the last to ask has it, and the others have lost it.
  def lock(key, wait: 0, lease: 10, keep: 30, fixed: false, owner: nil, &work)
    take(request(key, [], wait, lease, fixed ? nil : keep, owner), &work)
  end

  # The lock for any number that share it: the readers' side of a read and write lock.
  def shared(key, wait: 0, lease: 10, keep: 30, fixed: false, owner: nil, &work)
    take(request(key, ["SHARED"], wait, lease, fixed ? nil : keep, owner), &work)
  end

  # One of `of` permits of a semaphore. Each has an owner of its own.
  def permit(key, of:, wait: 0, lease: 10, keep: 30, fixed: false, &work)
    raise Misuse, "a semaphore has 1 permit or more, not #{of.inspect}" unless of.is_a?(Integer) && of.positive?

    take(request(key, ["LIMIT", of], wait, lease, fixed ? nil : keep, nil), &work)
  end

  # Who holds the lock: an array of hashes, as LOCK.HOLDERS tells it.
  def holders(key) = maps(ask_until(ACQUIRE, key, ["LOCK.HOLDERS", key])[0])

  # Ends all grants of the lock. Who holds it is told.
  def force_unlock(key)
    ask_until(ACQUIRE, key, ["PING"])
    ask_until(ACQUIRE, key, ["DEL", key], once: true)[0].positive? # a second one may be of whoever has it by then
  end

  # Releases what is held, while there is time for a release, and closes the connections. Waits end with Misuse.
  def close
    in_this_process
    grants = @monitor.synchronize { @held.dup }
    deadline = RedisLock.now + @release
    grants.each { |it| it.release if it.held? && RedisLock.now < deadline rescue Error }
    @monitor.synchronize do
      @closed = true
      @held.dup.each { |it| lose(it, "the locks are closed") } # it ends with its lease
      @waits.each { |it| shut(it) }
      drop_keeper
      @changed.broadcast
    end
  end

  private

  def begin_anew
    @pid, @held, @asked, @waits, @left = Process.pid, [], [], [], []
    @keeper, @keeper_ids, @thread, @closed, @pause, @looked = nil, [], nil, false, 0.0, 0.0
    @silent = -@reply
    @changed = @monitor.new_cond
  end

  # A forked child holds nothing, and has connections of its own.
  def in_this_process
    return if @pid == Process.pid

    FORKED.synchronize do
      next if @pid == Process.pid

      @monitor = Monitor.new
      [@keeper, *@waits].compact.each { |it| leave(it) }
      begin_anew
    end
  end

  def request(key, mode, wait, lease, keep, owner)
    in_this_process
    raise Misuse, "wait is 0 or more" unless wait >= 0
    raise Misuse, "lease is #{keep ? 1 : 0.001} s or more" unless lease >= (keep ? 1 : 0.001)
    raise Misuse, "keep is 1 s or more" if keep && keep < 1

    Request.new(key.to_s, mode, wait, lease, keep, owner&.to_s || new_owner, !owner.nil?)
  end

  def new_owner
    place = "#{@service}:#{Socket.gethostname}:#{Process.pid}".gsub(/[^!-~]/, "_")
    "#{place[0, 219]}:#{SecureRandom.uuid}"
  end

  def take(request)
    grant = given = failed = nil
    begin
      # An interrupt comes before the lock is taken, or finds the grant here.
      Thread.handle_interrupt(Object => :never) { grant = acquire(request) } # Object: a kill, too
      return yield(grant) if block_given?

      given = true
      grant
    rescue Exception # rubocop:disable Lint/RescueException
      failed = true
      raise
    ensure # Ruby looks for interrupts at each branch: there is none before this line
      Thread.handle_interrupt(Object => :never) do
        grant.release if grant && (failed || !given) && grant.state != :released && grant.pid == Process.pid
      rescue Error
        # An error of the work is not replaced, nor the end of the thread.
        raise unless failed || Thread.current.status == "aborting"
      end
    end
  end

  # Taking a lock.

  def acquire(request)
    deadline = RedisLock.now + request.wait
    words = ["LOCK.ACQUIRE", request.key, request.owner, *request.mode, "PX", ms(request.lease)]
    keep = request.keep ? ["KEEP", ms(request.keep)] : []
    reserve(request)
    done = false
    begin
      begin
        on = ->(redis) { request.on = redis }
        reply, sent = ask_until(ACQUIRE, request.key, [*words, *keep, "HOLDS", 1], own: on) { request.unsure = true }
      rescue Unavailable => failed
        raise if request.wait.zero? # else it may be there in time
      end
      reply, sent = wait_for(request, words, keep, deadline, failed) unless reply
      grant = Grant.new(self, request, request.owner, reply, sent)
      watch(grant, request.on)
      done = true
      grant
    rescue Error
      done = !request.unsure # the server has said that there is nothing to give back
      raise
    ensure
      give_back(request) unless done
      @monitor.synchronize { @asked.delete(request) }
    end
  end

  # One owner has one hold of a key, and one call for it: else two threads would get the same grant.
  def reserve(request)
    @monitor.synchronize do
      if request.named && (@held + @asked).any? { |it| it.key == request.key && it.owner == request.owner }
        raise Misuse, "#{request.key}: held, or asked for, by this owner already"
      end
      @asked << request
    end
  end

  def wait_for(request, words, keep, deadline, failed)
    pause = 0.0
    loop do
      left = deadline - RedisLock.now
      raise Unavailable, "#{request.key}: #{failed.message.delete_prefix("#{request.key}: ")}" if left <= 0 && failed
      raise Busy, "#{request.key}: others hold it, or are in line for it" if left <= 0

      begin
        reply, sent = in_line(request, words, keep, [left, DAY].min)
        return [reply, sent] if reply

        failed = nil
      rescue Unavailable, Redis::CommandError, *GONE => e
        raise Misuse, "#{request.key}: the locks are closed" if @closed
        raise told(request.key, e, ACQUIRE) unless meaning(e, ACQUIRE) == :passing

        request.unsure = true unless e.is_a?(Redis::CommandError)
        failed, pause = e, [pause * 2 + 0.05, 1.0].min
        sleep [pause, left].min
      end
    end
  end

  # One wait on a connection of its own. Its grant is renewed on the keeper: from there on it is kept.
  def in_line(request, words, keep, seconds)
    redis = open("lock-wait", seconds + @reply)
    @monitor.synchronize do
      raise Misuse, "#{request.key}: the locks are closed" if @closed # meanwhile

      @waits << redis
    end
    start_watching
    reply = Thread.handle_interrupt(Object => :immediate) do
      redis.call(*words, "HOLDS", 1, "BLOCK", ms(seconds))
    end
    return unless reply

    words = ["LOCK.RENEW", request.key, request.owner, "TOKEN", reply[0], *keep]
    ask_until(RENEW, request.key, words, own: ->(on) { must_be_own(request.on = on, request, reply[0]) })
  rescue Lost => e
    raise if e.message.end_with?(TAKEN_OVER)

    nil # the grant came, and went unseen
  ensure
    @monitor.synchronize { @waits.delete(redis) }
    shut(redis) if redis
  end

  # After a call that may have been carried out though nobody knows: nothing stays granted, and nobody in line.
  def give_back(request)
    return if @closed # its connection, too

    words = ["LOCK.RELEASE", request.key, request.owner, "ALL"]
    ask(words) { |redis| must_be_own(redis, request) }
  rescue Lost
    nil
  rescue Misuse, Redis::CommandError, *GONE => e
    give_up(words, request, e)
  end

  # A release that failed. The keeper must not keep on what it may not end, and another one leaves it out.
  def give_up(words, request, error)
    kind = meaning(error, RELEASE)
    return if kind == :lost # it has nothing

    @monitor.synchronize do
      drop_keeper
      # The next grant of a named owner must not be met by this: what it may hold ends with its lease.
      return if kind != :passing || request.named || @closed

      @left << [words, RedisLock.now + [request.lease, 10].max]
    end
    start_watching
  end

  # Holding it.

  def check(grant)
    grant.must_stand
    fence = ["LOCK.FENCE", grant.key, grant.instance_variable_get(:@token)]
    begin
      _, sent = ask_until(RENEW, grant.key, grant.keep ? ["PING"] : fence)
      ask_until(RENEW, grant.key, fence) if grant.keep && grant.named # others may have released it in its owner's name
      @monitor.synchronize { grant.sent = [grant.sent, sent].max if grant.keep && grant.held? }
    rescue Lost => e
      lose(grant, e.message)
    end
    grant.must_stand
  end

  def extend_lease(grant, seconds)
    grant.must_stand
    raise Misuse, "#{grant.key}: the server renews it" if grant.keep
    raise Misuse, "a lease is 0.001 s or more" unless seconds >= 0.001

    shorter(grant, seconds) do |unheard|
      grant.renewed(*ask_until(RENEW, grant.key, [*grant.words("RENEW"), "PX", ms(seconds)], &unheard))
    end
  rescue Lost => e
    lose(grant, e.message)
    raise
  end

  # A shorter lease may begin though its answer does not come: no more is known until that has.
  def shorter(grant, seconds)
    before, mine, unheard = grant.known, [seconds, RedisLock.now], false
    @monitor.synchronize { grant.known = mine if mine.sum < before.sum }
    begin
      yield -> { unheard = true }
    rescue Error
      @monitor.synchronize { grant.known = before if grant.known == mine && !unheard } # it was refused
      raise
    ensure
      @monitor.synchronize { @changed.broadcast }
    end
  end

  def release(grant)
    grant.must_stand
    deadline, unheard, kept_on = RedisLock.now + @release - @reply / 2, false, nil
    hear(grant) if grant.keep
    @monitor.synchronize do
      grant.must_stand
      grant.state = :released
      @held.delete(grant)
      kept_on = @keeper
    end
    words, token = [*grant.words("RELEASE"), "HOLDS", 0], grant.instance_variable_get(:@token)
    begin
      sent = false
      ask(words) do |redis|
        # The server closes the connection that has kept it when another is to. On a later one, look first.
        must_be_own(redis, grant, token) unless redis == kept_on
        sent = true
      end
      nil
    rescue Redis::CommandError, *GONE => e
      kind = meaning(e, RELEASE)
      return if kind == :lost && unheard # the call before was carried out, or it was lost: it is done

      unheard ||= sent unless e.is_a?(Redis::CommandError)
      if kind == :passing && RedisLock.now + 0.05 < deadline
        sleep 0.05
        retry
      end
      give_up(words, grant, e)
      raise told(grant.key, e, RELEASE)
    end
  end

  # Whether the server has closed the keeper, which is how it tells a loss: a release alone would not know which.
  def hear(grant)
    ask(["PING"])
  rescue Redis::TimeoutError, Redis::CommandError
    nil
  rescue *GONE
    @monitor.synchronize { keeper } rescue nil # which loses it, where it is lost
    grant
  end

  def lose(grant, why)
    @monitor.synchronize do
      return unless grant.state == :held

      grant.state, grant.why = :lost, why
      @held.delete(grant)
    end
    grant.listeners.dup.each { |it| thread { it.call if grant.listeners.delete(it) } }
  end

  # The keeper: the one connection on which the server keeps what this process holds.

  # The reply to a call, and when it was sent. Repeated while there is time, where what hinders it passes. The block
  # is told of a call without a reply, and what is to be sent once is not repeated then.
  def ask_until(kind, key, words, once: false, own: nil)
    in_this_process
    raise Misuse, "#{key}: the locks are closed" if @closed

    deadline = RedisLock.now + @reply
    begin
      sent = false
      ask(words) do |redis|
        own&.call(redis)
        sent = true
      end
    rescue Redis::CommandError => e
      raise told(key, e, kind) unless meaning(e, kind) == :passing && RedisLock.now < deadline

      sleep 0.05
      retry
    rescue *GONE => e
      yield if block_given? && sent
      raise Unavailable, "#{key}: #{e.message}" unless RedisLock.now < deadline && !(once && sent)

      sleep 0.02
      retry
    end
  end

  # The block is told when it is about to be sent, and where.
  def ask(words)
    @monitor.synchronize do
      begun = RedisLock.now
      # Where the server was silent a moment ago, those who stood in line behind that call do not wait as long each.
      raise Redis::TimeoutError, "no answer" if begun < @silent + @reply && Thread.current != @thread

      redis = keeper
      sent = RedisLock.now
      Thread.handle_interrupt(Exception => :never) do
        yield redis if block_given?
        [redis.call(*words), sent]
      end
    rescue Redis::CommandError => e
      drop_keeper if e.message.start_with?("READONLY", "MASTERDOWN", "UNBLOCKED") # a new one may find the new primary
      raise
    rescue *GONE
      drop_keeper
      @silent = RedisLock.now if RedisLock.now - begun > @reply / 2
      raise
    end
  end

  # On a new connection the server is told to go on with each grant, and tells of each whether it was lost.
  def keeper
    return @keeper if @keeper
    raise Misuse, "the locks are closed" if @closed # while it was tried

    redis = open("lock-keeper", @reply)
    begin
      id = client_id(redis)
      @keeper_ids.clear if !id || @keeper_ids.any? { |it| it >= id } # by a server that counts anew
      @keeper_ids << id if id
      @held.select(&:keep).each { |grant| keep_on(redis, grant) }
    rescue StandardError
      shut(redis)
      raise
    end
    @keeper = redis
  end

  def keep_on(redis, grant)
    return lose(grant, TAKEN_OVER) if taken_over?(redis, grant, grant.instance_variable_get(:@token))

    sent = RedisLock.now
    grant.renewed(redis.call(*grant.words("RENEW"), "KEEP", ms(grant.keep)), sent)
  rescue Redis::CommandError => e
    raise unless meaning(e, RENEW) == :lost

    lose(grant, e.message)
  end

  # Whether another connection than an earlier keeper keeps what others know of, by its token, or all that its owner has:
  # who asked last has it.
  def taken_over?(redis, it, token = nil)
    return false unless it.named && (it.keep || !token) # a call-off may meet what another has kept
    return false if @keeper_ids.empty? # the user may not ask for it

    field, own = token ? ["token", token] : ["owner", it.owner]
    mine = maps(redis.call("LOCK.HOLDERS", it.key)).find { |holder| holder[field].to_s.b == own.to_s.b }
    mine && ![0, *@keeper_ids].include?(mine["kept-by"])
  rescue Redis::CommandError
    false
  end

  def must_be_own(redis, it, token = nil)
    raise Lost, "#{it.key}: #{TAKEN_OVER}" if taken_over?(redis, it, token)
  end

  # RESP2 has a map as a flat array.
  def maps(reply) = reply.map { |it| it.is_a?(Hash) ? it : Hash[*it] }

  def client_id(redis)
    redis.call("CLIENT", "ID")
  rescue Redis::CommandError
    nil # the user may not ask
  end

  def open(name, seconds)
    redis = Redis.new(**@options, connect_timeout: @reply, read_timeout: seconds, write_timeout: @reply,
                                  reconnect_attempts: 0)
    begin
      redis.call("CLIENT", "SETNAME", name)
    rescue StandardError => e
      return redis if meaning(e, ACQUIRE) != :passing && !e.message.start_with?("NOAUTH", "WRONGPASS")

      shut(redis)
      raise
    end
    redis
  end

  def drop_keeper
    shut(@keeper) if @keeper
    @keeper = nil
  end

  def shut(redis)
    redis.close
  rescue StandardError
    nil
  end

  # Closes what a forked child has inherited, without a word: by TLS, that would end its parent's connection.
  def leave(redis)
    socket = redis._client.instance_variable_get(:@connection)&.instance_variable_get(:@sock)
    socket ? socket.to_io.close : shut(redis)
  rescue StandardError
    nil
  end

  # The thread that asks the keeper how things are, and tells what was lost.

  def watch(grant, on)
    @monitor.synchronize do
      raise Misuse, "#{grant.key}: the locks are closed" if @closed # meanwhile

      start_watching # there may be no thread to be had
      @held << grant
      next if !grant.keep || !@keeper || @keeper == on

      begin
        keep_on(@keeper, grant) # the one that has it was replaced meanwhile
      rescue *GONE, Redis::CommandError
        drop_keeper
      end
    end
  end

  def start_watching
    @monitor.synchronize do
      @thread = thread { @monitor.synchronize { look_after } } unless @thread&.alive?
      @changed.broadcast
    end
  end

  # One that can be ended: it inherits that an interrupt waits, and the end of the process would wait for it.
  def thread(&work) = Thread.new { Thread.handle_interrupt(Object => :immediate, &work) }

  def look_after
    until @closed
      seconds = due - RedisLock.now
      seconds.positive? ? @changed.wait(seconds) : look
    end
  end

  # When the next look is due.
  def due
    return @looked + @pause if @pause.positive?
    return @looked + 60 if @held.empty? && @waits.empty? && @left.empty?

    paces = @held.map { |it| it.keep ? @looked + [it.lease, it.keep].min / 3.0 : it.sent + it.lease }
    [[*paces, @looked + (@left.empty? ? 3.0 : 0.2)].min, @looked + 0.05].max
  end

  def look
    now = RedisLock.now
    # This process may have stood still: then a new connection is tried before it is judged, but once.
    @late = now > due + 1 && !@late
    begin
      if @waits.any? || @left.any? || @held.any?(&:keep)
        now = hear_of_all
        send_what_is_left
      end
      @pause = 0.0
    rescue *GONE, Redis::CommandError
      now, @pause = RedisLock.now, [@pause * 2 + 0.05, 1.0].min
      drop_keeper
      @waits.each { |it| shut(it) } # whose reply may have been swallowed, too
      return @looked = now if @late
    end
    ended = @held.select { |it| now >= it.sent + it.lease }
    ended.each { |it| lose(it, it.keep ? "nothing has been heard of it for a lease" : "its lease has passed") }
    @looked = now
  end

  # A PONG tells of all that is kept. Where it comes late, this process may have stood still: then once more.
  def hear_of_all
    now = nil
    2.times do
      _, sent = ask(["PING"])
      @held.each { |it| it.sent = [it.sent, sent].max if it.keep }
      now = RedisLock.now
      break if now - sent < @reply / 2
    end
    now
  end

  def send_what_is_left
    until @left.empty?
      words, deadline = @left.first
      begin
        ask(words) if RedisLock.now < deadline
      rescue Redis::CommandError => e
        return if meaning(e, RELEASE) == :passing # else it is done, or may not be
      end
      @left.shift
    end
  end

  # Errors.

  # What an error means to a call of this kind. Where no reply came, that passes.
  def meaning(error, kind)
    return :passing unless error.is_a?(Redis::CommandError)

    MEANINGS.find { |begins, _| error.message.start_with?(begins) }[1][kind]
  end

  def told(key, error, kind)
    hint = error.message.start_with?("ERR unknown command") ? " (is the module lock loaded?)" : ""
    KINDS[meaning(error, kind)].new("#{key}: #{error.message}#{hint}")
  end

  def ms(seconds) = [(seconds * 1000).ceil, 1].max
end
