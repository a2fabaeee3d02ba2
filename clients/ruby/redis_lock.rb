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
  # To wait would close a circle of waits. Release what this owner holds, then begin again.
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
  GONE = [Redis::BaseConnectionError, IOError, SystemCallError, SocketError].freeze
  DAY = 86_400.0
  private_constant :KINDS, :ACQUIRE, :RENEW, :RELEASE, :GONE, :DAY

  # One hold of a lock.
  class Grant
    attr_reader :key, :owner, :lease, :keep
    # What the locks know of it; they alone change it.
    attr_accessor :state, :why, :sent
    attr_reader :listeners, :pid

    def initialize(locks, request, owner, reply, sent)
      @locks, @owner, @token, @sent = locks, owner, reply[0], sent
      @key, @lease, @keep = request.key, request.lease, request.keep
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
    def release = @locks.send(:release, self)

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
    def renewed(reply, sent) = (@lease, @sent = reply[3] / 1000.0, sent)
  end

  Request = Struct.new(:key, :mode, :wait, :lease, :keep, :owner)
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
  # what holds, or waits for, several locks: by it the server finds circles of waits.
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
  def holders(key) = ask_until(ACQUIRE, key, ["LOCK.HOLDERS", key])[0].map { |it| it.is_a?(Hash) ? it : Hash[*it] }

  # Ends all grants of the lock. Who holds it is told.
  def force_unlock(key) = ask_until(ACQUIRE, key, ["DEL", key])[0].positive?

  # Releases what is held, and closes the connections. Waits end with Misuse.
  def close
    grants = @monitor.synchronize { @pid == Process.pid ? @held.dup : [] }
    grants.each { |it| it.release if it.held? rescue Error }
    @monitor.synchronize do
      @closed = true
      @waits.each { |it| shut(it) }
      drop_keeper
      @changed.broadcast
    end
  end

  private

  def begin_anew
    @pid, @held, @waits, @left = Process.pid, [], [], []
    @keeper, @thread, @closed, @pause, @looked = nil, nil, false, 0.0, 0.0
    @changed = @monitor.new_cond
  end

  # A forked child holds nothing, and has connections of its own.
  def in_this_process
    return if @pid == Process.pid

    @monitor = Monitor.new
    [@keeper, *@waits].compact.each { |it| shut(it) }
    begin_anew
  end

  def request(key, mode, wait, lease, keep, owner)
    in_this_process
    raise Misuse, "wait is 0 or more" unless wait >= 0
    raise Misuse, "lease is #{keep ? 1 : 0.001} s or more" unless lease >= (keep ? 1 : 0.001)
    raise Misuse, "keep is 1 s or more" if keep && keep < 1

    Request.new(key.to_s, mode, wait, lease, keep, owner || new_owner)
  end

  def new_owner
    place = "#{@service}:#{Socket.gethostname}:#{Process.pid}".gsub(/[^!-~]/, "_")
    "#{place[0, 219]}:#{SecureRandom.uuid}"
  end

  def take(request)
    grant = nil
    begin
      # An interrupt comes before the lock is taken, or finds the grant here.
      Thread.handle_interrupt(Exception => :never) { grant = acquire(request) }
      return grant unless block_given?

      failed = true
      result = yield grant
      failed = false
      result
    rescue Exception # rubocop:disable Lint/RescueException
      failed = true
      raise
    ensure
      if grant && (block_given? || failed) && grant.state != :released
        begin
          grant.release if grant.pid == Process.pid
        rescue Error
          raise unless failed # an error of the work is not replaced
        end
      end
    end
  end

  # Taking a lock.

  def acquire(request)
    deadline = RedisLock.now + request.wait
    words = ["LOCK.ACQUIRE", request.key, request.owner, *request.mode, "PX", ms(request.lease)]
    keep = request.keep ? ["KEEP", ms(request.keep)] : []
    named = @monitor.synchronize { @held.any? { |it| it.key == request.key && it.owner == request.owner } }
    raise Misuse, "#{request.key}: held by this owner already" if named

    done = false
    begin
      begin
        reply, sent = ask_until(ACQUIRE, request.key, [*words, *keep, "HOLDS", 1])
      rescue Unavailable => failed
        raise if request.wait.zero? # else it may be there in time
      end
      reply, sent = wait_for(request, words, keep, deadline, failed) unless reply
      grant = Grant.new(self, request, request.owner, reply, sent)
      watch(grant)
      done = true
      grant
    ensure
      give_back(request) unless done
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
        raise told(request.key, e, ACQUIRE) if e.is_a?(Redis::CommandError) && meaning(e, ACQUIRE) != :passing

        failed, pause = e, [pause * 2 + 0.05, 1.0].min
        sleep [pause, left].min
      end
    end
  end

  # One wait on a connection of its own. Its grant is renewed on the keeper: from there on it is kept.
  def in_line(request, words, keep, seconds)
    redis = open("lock-wait", seconds + @reply)
    @monitor.synchronize { @waits << redis }
    start_watching
    reply = Thread.handle_interrupt(Exception => :immediate) do
      redis.call(*words, "HOLDS", 1, "BLOCK", ms(seconds))
    end
    return unless reply

    ask_until(RENEW, request.key, ["LOCK.RENEW", request.key, request.owner, "TOKEN", reply[0], *keep])
  rescue Lost
    nil # the grant came, and went unseen
  ensure
    @monitor.synchronize { @waits.delete(redis) }
    shut(redis) if redis
  end

  # After a call that may have been carried out though nobody knows: nothing stays granted, and nobody in line.
  def give_back(request)
    return if @closed # its connection, too

    words = ["LOCK.RELEASE", request.key, request.owner, "ALL"]
    ask(words)
  rescue Redis::CommandError
    nil # it has nothing
  rescue *GONE
    @monitor.synchronize { @left << [words, RedisLock.now + request.lease] }
    start_watching
  end

  # Holding it.

  def check(grant)
    grant.must_stand
    words = grant.keep ? ["PING"] : ["LOCK.FENCE", grant.key, grant.instance_variable_get(:@token)]
    begin
      _, sent = ask_until(RENEW, grant.key, words)
      @monitor.synchronize { grant.sent = [grant.sent, sent].max if grant.keep && grant.held? }
    rescue Lost => e
      lose(grant, e.message)
    end
    grant.must_stand
  end

  def extend_lease(grant, seconds)
    grant.must_stand
    raise Misuse, "#{grant.key}: the server renews it" if grant.keep

    grant.renewed(*ask_until(RENEW, grant.key, [*grant.words("RENEW"), "PX", ms(seconds)]))
    @monitor.synchronize { @changed.broadcast }
  rescue Lost => e
    lose(grant, e.message)
    raise
  end

  def release(grant)
    grant.must_stand
    deadline, failed = RedisLock.now + @release - @reply / 2, nil
    hear(grant) if grant.keep
    grant.must_stand
    @monitor.synchronize do
      grant.state = :released
      @held.delete(grant)
    end
    words = [*grant.words("RELEASE"), "HOLDS", 0]
    begin
      ask(words)
      nil
    rescue Redis::CommandError, *GONE => e
      kind = e.is_a?(Redis::CommandError) ? meaning(e, RELEASE) : :passing
      return if kind == :lost && failed # the call before was carried out, or it was lost: it is done
      raise told(grant.key, e, RELEASE) unless kind == :passing

      failed = e
      sleep 0.05
      retry if RedisLock.now < deadline
      @monitor.synchronize { @left << [words, RedisLock.now + [grant.lease, 10].max] }
      start_watching
      raise Unavailable, "#{grant.key}: #{e.message}"
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
    listeners = grant.listeners.dup
    Thread.new { listeners.each { |it| it.call if grant.listeners.delete(it) } } unless listeners.empty?
  end

  # The keeper: the one connection on which the server keeps what this process holds.

  # The reply to a call, and when it was sent. Repeated while there is time, where what hinders it passes.
  def ask_until(kind, key, words)
    in_this_process
    raise Misuse, "#{key}: the locks are closed" if @closed

    deadline = RedisLock.now + @reply
    begin
      ask(words)
    rescue Redis::CommandError => e
      raise told(key, e, kind) unless meaning(e, kind) == :passing && RedisLock.now < deadline

      sleep 0.05
      retry
    rescue *GONE => e
      raise Unavailable, "#{key}: #{e.message}" unless RedisLock.now < deadline

      sleep 0.02
      retry
    end
  end

  def ask(words)
    @monitor.synchronize do
      redis = keeper
      sent = RedisLock.now
      Thread.handle_interrupt(Exception => :never) { [redis.call(*words), sent] }
    rescue *GONE
      drop_keeper
      raise
    end
  end

  # On a new connection the server is told to go on with each grant, and tells of each whether it was lost.
  def keeper
    return @keeper if @keeper

    redis = open("lock-keeper", @reply)
    begin
      @held.select(&:keep).each { |grant| keep_on(redis, grant) }
    rescue StandardError
      shut(redis)
      raise
    end
    @keeper = redis
  end

  def keep_on(redis, grant)
    sent = RedisLock.now
    grant.renewed(redis.call(*grant.words("RENEW"), "KEEP", ms(grant.keep)), sent)
  rescue Redis::CommandError => e
    raise unless meaning(e, RENEW) == :lost

    lose(grant, e.message)
  end

  def open(name, seconds)
    redis = Redis.new(**@options, connect_timeout: @reply, read_timeout: seconds, write_timeout: @reply,
                                  reconnect_attempts: 0)
    begin
      redis.call("CLIENT", "SETNAME", name)
    rescue Redis::CommandError => e
      raise if meaning(e, ACQUIRE) == :passing || e.message.start_with?("NOAUTH", "WRONGPASS")
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

  # The thread that asks the keeper how things are, and tells what was lost.

  def watch(grant)
    @monitor.synchronize { @held << grant }
    start_watching
  end

  def start_watching
    @monitor.synchronize do
      @thread = Thread.new { @monitor.synchronize { look_after } } unless @thread&.alive?
      @changed.broadcast
    end
  end

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
    is_late = now > due + 1 # this process may have stood still: then a new connection is tried before it is judged
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
      return @looked = now if is_late
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
      rescue Redis::CommandError
        nil # it is done
      end
      @left.shift
    end
  end

  # Errors.

  def meaning(error, kind)
    MEANINGS.find { |begins, _| error.message.start_with?(begins) }[1][kind]
  end

  def told(key, error, kind)
    hint = error.message.start_with?("ERR unknown command") ? " (is the module lock loaded?)" : ""
    KINDS[meaning(error, kind)].new("#{key}: #{error.message}#{hint}")
  end

  def ms(seconds) = [(seconds * 1000).ceil, 1].max
end
