# frozen_string_literal: true

require "redis"
require "securerandom"
require "socket"

# Distributed locks of the module redis-lock, for threads, on redis-rb: waiters queue in the server, which renews what
# is held, and each grant has a fencing token.
#
#   LOCKS = RedisLock.new(url: "redis://localhost:6379", service: "orders")   # one for the process
#   LOCKS.lock("lock:orders:42", wait: 10) { |grant| puts grant.token }
#
# All times are in seconds.
class RedisLock
  # All errors of this class. The `cause` is the error of redis-rb, if there is one.
  class Error < StandardError; end
  # Others hold the lock, and the time to wait is over.
  class Busy < Error; end
  # The grant ended before its holder released it, or the server was silent for a lease.
  class Lost < Error; end
  # The server refuses: no right, a wrong password, memory full, a limit, or the module is not loaded.
  class Refused < Error; end
  # The server could not be reached, or did not answer in time.
  class Unavailable < Error; end
  # Wrong arguments, another type of key, closed locks, a second release.
  class Misuse < Error; end

  # The meaning of an error reply for an acquire, a move to a session, and a release, by its first words. The first that fit
  # count. A test compares it with clients/protocol/errors.json.
  MEANINGS = {
    %w[NOTHELD NOTOWNER FENCED] => %i[lost lost lost],
    %w[WRONGTYPE] => %i[misuse lost lost],
    %w[NOTALONE] => %i[not-alone passing misuse],
    %w[DEADLOCK] => %i[deadlock passing misuse],
    ["NOSESSION", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "UNBLOCKED", "CLUSTERDOWN",
     "TRYAGAIN", "MOVED", "ASK", "ERR max number of clients"] => %i[passing passing passing],
    ["NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "NOPROTO", "OOM", "MAXWAITERS", "MAXSESSIONS", "ERR unknown command",
     "ERR unknown subcommand", "ERR invalid password", "ERR AUTH", "ERR Protocol error: unauthenticated",
     "ERR no fencing token is left", "ERR a fault inside the module"] => %i[refused passing refused],
    ["CROSSSLOT", "ERR", ""] => %i[misuse passing misuse]
  }.flat_map { |begins, classes| begins.map { |it| [it, classes] } }.to_h.freeze
  KINDS = { lost: Lost, refused: Refused, passing: Unavailable }.freeze
  ACQUIRE, MOVE, RELEASE = 0, 1, 2
  # With Sentinels redis-rb 5 raises the errors of redis-client.
  REPLY = [Redis::CommandError, *(RedisClient::CommandError if defined?(RedisClient))].freeze
  FAILED = [Redis::BaseError, *(RedisClient::Error if defined?(RedisClient)), IOError, SystemCallError, SocketError,
            *(OpenSSL::SSL::SSLError if defined?(OpenSSL::SSL))].freeze
  FOREVER = 315_360_000.0 # ten years, as on the server
  private_constant :KINDS, :ACQUIRE, :MOVE, :RELEASE, :REPLY, :FAILED, :FOREVER

  # @!visibility private
  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # A thread that can be ended, also if the one that starts it holds interrupts back.
  # @!visibility private
  def self.thread(&work) = Thread.new { Thread.handle_interrupt(Object => :immediate, &work) }

  # One acquire: first a call or a wait, then the hold of a lock.
  class Grant
    # The lock, the owner of this hold, and the reason of its loss.
    attr_reader :key, :owner, :lost
    # @!visibility private
    attr_accessor :state, :session, :sure, :error, :tried
    # @!visibility private
    attr_reader :mode, :lease, :deadline, :pid, :raw_token

    def initialize(locks, key, owner, mode, lease, deadline) # :nodoc:
      @locks, @key, @owner, @mode, @lease, @deadline = locks, key, owner, mode, lease, deadline
      @state, @sure, @listeners, @pid = :asked, 0.0, [], Process.pid
    end

    # The fencing token: tokens of one lock rise from grant to grant. Raises if the lock is known not to be held.
    def token = must_stand && @raw_token

    # Whether nobody else has the lock, by the clock alone. Also false while the server is silent.
    def held? = remaining.positive?

    # Whether the lock was lost.
    def lost? = @state == :lost

    # The seconds for which the lock is surely held without another reply of the server.
    def remaining = @state == :held && @pid == Process.pid ? [@sure - RedisLock.now, 0.0].max : 0.0

    # Asks the server, before a critical step, whether the lock is held. Raises Lost, Unavailable.
    def check = @locks.send(:check, self)

    # Sets a fixed lease, from now on.
    def extend(seconds) = @locks.send(:extend_lease, self, seconds)

    # Releases the lock. Raises Lost if it was lost before, Unavailable if the server did not answer.
    def release = Thread.handle_interrupt(Object => :never) { @locks.send(:release, self) }

    # Calls the block once, on a thread of its own, when the lock is lost.
    def on_lost(&block)
      @listeners << block
      block.call if lost? && @listeners.delete(block)
    end

    def inspect = "#<RedisLock::Grant #{@key} token=#{@raw_token} #{@state}>" # :nodoc:

    # @!visibility private
    def granted(token, sure, session)
      @raw_token, @sure, @session, @state = token, sure, session, :held
    end

    # @!visibility private
    def name = [@key, @owner]

    # @!visibility private
    def lose(reason)
      @state, @lost = :lost, reason
      @listeners.dup.each { |it| RedisLock.thread { it.call if @listeners.delete(it) } }
    end

    # @!visibility private
    def must_stand
      raise Misuse, "#{@key}: held by the parent process, not by this one" if @pid != Process.pid
      raise Misuse, "#{@key}: released" if @state == :released
      raise Lost, "#{@key}: #{@lost}" if lost?

      true
    end
  end

  # `service` is the first part of each owner's name. Others wait for `lease` after a crash of this process; a frozen
  # process keeps its locks for `silence` and a lease. `reply` limits each reply. The rest is for `Redis.new`: url,
  # password, ssl, sentinels …
  def initialize(service: "app", lease: 10, silence: 30, reply: 1.0, **redis)
    raise Misuse, "lease and silence must be at least 1 s" unless lease >= 1 && silence >= 1

    @service, @lease, @silence, @reply, @options = service, lease, silence, reply, redis
    begin_anew
  end

  # The lock for one holder. With a block, it is released at the end of the block. `wait`: for how long to queue
  # (Float::INFINITY: without limit). `fixed`: a lease that nobody renews, without a session and its thread.
  def lock(key, wait: 0, fixed: nil, &work) = take(key, [], wait, fixed, &work)

  # The lock for any number that share it: the readers' side of a read and write lock.
  def shared(key, wait: 0, fixed: nil, &work) = take(key, ["SHARED"], wait, fixed, &work)

  # One of `of` permits of a semaphore.
  def permit(key, of:, wait: 0, fixed: nil, &work)
    raise Misuse, "a semaphore must have at least 1 permit, not #{of.inspect}" unless of.is_a?(Integer) && of.positive?

    take(key, ["LIMIT", of], wait, fixed, &work)
  end

  # Releases all that is held in the session, within the time of two replies. Waits end with Misuse.
  def close
    in_this_process
    grants = @lock.synchronize do
      @closed = true
      @changed.broadcast
      @grants.values.select { |it| it.state == :held }
    end
    limit = RedisLock.now + (2 * @reply)
    call(["LOCK.SESSION", "CLOSE", @session]) if @session rescue FAILED
    grants.each { |it| it.release if RedisLock.now < limit rescue Error }
    @lock.synchronize { @idle.each { |it| shut(it) } }
  end

  private

  def begin_anew
    @pid, @lock, @changed, @closed = Process.pid, Mutex.new, ConditionVariable.new, false
    @grants, @unfinished, @losses, @idle, @calls = {}, {}, {}, [], 0
    @session = @polling = @thread = @excess = @failure = nil
  end

  # A forked child has no session and no grants, and leaves the connections of its parent alone.
  def in_this_process
    return if @pid == Process.pid

    @inherited = [@idle, @polling] # not closed: over TLS that would end the parent's
    begin_anew
  end

  def take(key, mode, wait, fixed)
    in_this_process
    raise Misuse, "wait must not be negative" unless wait >= 0
    raise Misuse, "a lease must be more than 0 s" unless fixed.nil? || fixed.positive?
    raise Misuse, "#{key}: the locks are closed" if @closed

    grant = Grant.new(self, key.to_s, new_owner, mode, fixed || @lease, RedisLock.now + [wait, FOREVER].min)
    failed = given = nil
    begin
      # An interrupt comes before the lock is taken, while it waits, or finds the grant here.
      Thread.handle_interrupt(Object => :never) { fixed ? acquire_fixed(grant) : acquire(grant, wait.zero?) }
      return yield(grant) if block_given?

      given = true
      grant
    rescue Exception # rubocop:disable Lint/RescueException
      failed = true
      raise
    ensure
      Thread.handle_interrupt(Object => :never) do
        grant.release if (failed || !given) && %i[held lost].include?(grant.state) && grant.pid == Process.pid
      rescue Error # an error of the work is not replaced, nor the end of the thread
        raise unless failed || Thread.current.status == "aborting"
      end
    end
  end

  def new_owner
    place = "#{@service}:#{Socket.gethostname}:#{Process.pid}".gsub(/[^!-~]/, "_")
    "#{place[0, 219]}:#{SecureRandom.uuid}"
  end

  # Acquiring.

  def acquire(grant, at_once)
    @lock.synchronize do
      @grants[grant.name] = grant # before the call: its event may be faster than its reply
      @thread = RedisLock.thread { poll_on } unless @thread&.alive?
    end
    ask(grant, at_once) until (ready = ready?(grant))
  ensure
    give_up(grant) unless ready || grant.lost?
  end

  # Whether the user has the lock from now on. Waits until that, or the next call, is near.
  def ready?(grant)
    @lock.synchronize do
      raise grant.error if grant.error
      raise Lost, "#{grant.key}: #{grant.lost}" if grant.lost?
      raise Misuse, "#{grant.key}: the locks are closed" if @closed
      next true if grant.held?

      left = grant.deadline + @reply - RedisLock.now
      raise in_line?(grant) ? busy(grant) : error(grant.key, @failure, ACQUIRE) if left <= 0

      pause(left) unless grant.state == :asked && @session
      false
    end
  end

  def in_line?(grant) = @session && grant.state == :queued && grant.session == @session

  # Until something changes. A thread may be interrupted here.
  def pause(seconds) = Thread.handle_interrupt(Object => :immediate) { @changed.wait(@lock, seconds) }

  def ask(grant, at_once)
    session = @lock.synchronize { grant.state == :asked && @session } or return
    sent, reply = call(acquire_words(grant, session, at_once))
    @lock.synchronize { answered(grant, reply, sent, session) }
  rescue *FAILED => e
    @failure = e
    raise error(grant.key, e, ACQUIRE) unless meaning(e, ACQUIRE) == :passing

    @lock.synchronize { pause(0.05) }
  end

  def acquire_words(grant, session, at_once)
    queue = at_once ? [] : ["QUEUE", ms(grant.deadline - RedisLock.now)]
    ["LOCK.ACQUIRE", grant.key, grant.owner, *grant.mode, "PX", ms(@lease), "SESSION", session, "HOLDS", 1, *queue]
  end

  # Takes the reply to an ACQUIRE in a session. The loss of that grant may have been reported before.
  def answered(grant, reply, sent, session)
    return unless %i[asked queued].include?(grant.state)

    case reply
    when nil then grant.error = busy(grant)
    when Integer then grant.state, grant.session = :queued, session if session == @session
    else grant.granted(reply[0], sent + (reply[3] / 1000.0), session) unless @losses.key?(reply[0])
    end
  end

  # Nothing stays held or queued in the name of this acquire.
  def give_up(grant)
    words = ["LOCK.RELEASE", grant.key, grant.owner, "ALL"]
    @lock.synchronize { grant.state, @unfinished[grant.name] = :released, words }
    call(words)
    @lock.synchronize { @unfinished.delete(grant.name) }
  rescue *FAILED
    nil # the loop repeats it
  ensure
    @lock.synchronize { @grants.delete(grant.name) }
  end

  # Without a session: the wait is a call that blocks.
  def acquire_fixed(grant)
    words = ["LOCK.ACQUIRE", grant.key, grant.owner, *grant.mode, "PX", ms(grant.lease), "HOLDS", 1]
    begin
      left = [grant.deadline - RedisLock.now, 60.0].min
      block = left.positive? ? ["BLOCK", ms(left)] : []
      sent, reply = call([*words, *block], [left, 0].max)
      # How long ago the grant of a wait came is not known: its lease begins anew.
      sent, = call(renew(grant, reply[0], "PX", ms(grant.lease))) if reply && block.any?
      grant.granted(reply[0], sent + grant.lease, nil) if reply
      @failure = nil
    rescue *FAILED => e
      raise error(grant.key, @failure = e, ACQUIRE) unless meaning(e, ACQUIRE) == :passing

      @lock.synchronize { pause(0.05) }
    end until grant.state == :held || RedisLock.now >= grant.deadline + (@failure ? @reply : 0)
    raise @failure ? error(grant.key, @failure, ACQUIRE) : busy(grant) unless grant.state == :held
  ensure
    call(["LOCK.RELEASE", grant.key, grant.owner, "ALL"]) rescue FAILED unless grant.state == :held
  end

  # Holding.

  def check(grant)
    grant.must_stand
    confirm(grant, ["LOCK.FENCE", grant.key, grant.raw_token])
    limit = RedisLock.now + (2 * @reply) # after a suspension the loop has to poll first
    @lock.synchronize { pause(0.05) until grant.held? || !grant.session || grant.lost? || RedisLock.now > limit }
    grant.must_stand
    raise Unavailable, "#{grant.key}: the server is silent" unless grant.held?
  end

  def extend_lease(grant, seconds)
    grant.must_stand
    raise Misuse, "#{grant.key}: the server renews it" if grant.session
    raise Misuse, "a lease must be more than 0 s" unless seconds.positive?

    grant.sure = [grant.sure, RedisLock.now + seconds].min # a shorter one may begin though its reply is lost
    grant.sure = confirm(grant, renew(grant, grant.raw_token, "PX", ms(seconds))) + seconds
  end

  # Asks about a grant; returns when that was sent.
  def confirm(grant, words)
    limit = RedisLock.now + (2 * @reply)
    begin
      call(words)[0]
    rescue *FAILED => e
      sleep 0.05
      retry if meaning(e, MOVE) == :passing && RedisLock.now < limit && !e.message.start_with?("NO")
      lose(grant, e.message) if meaning(e, MOVE) == :lost
      grant.must_stand
      raise error(grant.key, e, ACQUIRE)
    end
  end

  def renew(grant, token, *more) = ["LOCK.RENEW", grant.key, grant.owner, "TOKEN", token, *more]

  def release(grant)
    @lock.synchronize { grant.must_stand && grant.state = :released }
    session = grant.session ? ["SESSION", grant.session] : []
    words = ["LOCK.RELEASE", grant.key, grant.owner, "HOLDS", 0, *session, "TOKEN", grant.raw_token]
    limit, unanswered = RedisLock.now + (2 * @reply), false
    begin
      call(words)
      nil
    rescue *FAILED => e
      kind = meaning(e, RELEASE)
      return if kind == :lost && unanswered # an earlier try got through

      unanswered ||= !reply?(e)
      sleep 0.05 if kind == :passing
      retry if kind == :passing && RedisLock.now + @reply <= limit
      leave(grant, words, kind) if grant.session
      raise error(grant.key, e, RELEASE)
    end
  ensure
    @lock.synchronize { @grants.delete(grant.name) }
  end

  # The server renews what nobody has released: the loop repeats the release, and one that is refused ends its lease.
  def leave(grant, words, kind)
    @lock.synchronize { @unfinished[grant.name] = words if kind == :passing }
    call(renew(grant, grant.raw_token, "SESSION", 0, "PX", 1)) if %i[refused misuse].include?(kind)
  rescue *FAILED
    nil
  end

  # With the lock, or before the loop knows the grant.
  def lose(grant, reason)
    return unless grant.state == :held

    grant.lose(reason)
    @grants.delete(grant.name)
    @changed.broadcast
  end

  # The loop: one thread polls the session, and does nothing else.

  def poll_on
    pause = 0
    until @closed
      begun = RedisLock.now
      begin
        @polling ||= connect
        open_session unless @session
        send_due
        poll
        pause = 0
      rescue *FAILED => e
        failed(e, begun)
        break if @grants.empty? && meaning(e, ACQUIRE) == :refused

        @lock.synchronize { @changed.wait(@lock, pause * rand(0.5..1.0)) } if pause.positive? && !@closed
        pause = [[pause * 2, 0.05].max, 1].min
      end
    end
  ensure
    shut(@polling) if @polling && @pid == Process.pid
    @polling = nil
  end

  def open_session
    id = @polling.call("LOCK.SESSION", "OPEN", "TIMEOUT", ms(@silence), "NAME", @service)
    @lock.synchronize { @session, @seen, @excess = id, 0, nil }
    @changed.broadcast
  end

  # Moves grants and waits that are in an earlier session, and repeats unfinished releases.
  def send_due
    all, unfinished = @lock.synchronize { [@grants.values, @unfinished.to_a] }
    all.select { |it| it.state == :held && it.session != @session }.each do |grant|
      due(renew(grant, grant.raw_token, "SESSION", @session)) do |sent, reply, e|
        lose(grant, e.message) if e && meaning(e, MOVE) == :lost
        grant.granted(reply[0], sent + (reply[3] / 1000.0), @session) if reply && grant.state == :held
      end
    end
    all.select { |it| it.state == :queued && it.session != @session }.each do |grant|
      due(acquire_words(grant, @session, false)) do |sent, reply, e|
        e ? ended(grant, e) : answered(grant, reply, sent, @session)
      end
    end
    unfinished.each do |name, words|
      due(words) { |_, _, e| @unfinished.delete(name) unless e && meaning(e, RELEASE) == :passing }
    end
    find_strays if @excess && RedisLock.now > @excess + @lease
  end

  # One call on the polling connection. The block has the lock.
  def due(words)
    sent = RedisLock.now
    begin
      reply = @polling.call(*words)
    rescue *REPLY => e
      error = e
    end
    @lock.synchronize { yield sent, reply, error }
    @changed.broadcast
    raise error if error&.message&.start_with?("NOSESSION")
  end

  # Releases what the session has though nobody here knows of it: requests that arrived after they were given up.
  def find_strays
    all = @polling.call("LOCK.SESSION", "GRANTS", @session).map { |it| fields(it) }
    @lock.synchronize do
      all.each do |it|
        name = [it["key"].b, it["owner"].b]
        next if [@grants, @unfinished].any? { |known| known.keys.any? { |(key, owner)| [key.b, owner.b] == name } }

        @unfinished[name] = ["LOCK.RELEASE", *name, "ALL", "TOKEN", it["token"]]
      end
      @excess = nil
    end
  end

  def poll
    now = RedisLock.now
    known = @lock.synchronize { @grants.values.select { |it| it.state == :held && it.session == @session } }
    block = known.any? { |it| it.sure <= now } ? 0.1 : @lease / 3.0
    reply = @polling.send(:send_blocking_command, ["LOCK.SESSION", "POLL", @session, "BLOCK", ms(block)], block)
    @lock.synchronize { polled(fields(reply), now, known) }
    @changed.broadcast
  end

  def polled(reply, sent, known)
    reply["events"].each { |number, *event| (@seen = number) && happened(known, *event) if number > @seen }
    sure = sent + (reply["sure-ms"].negative? ? @lease : reply["sure-ms"] / 1000.0)
    known.each do |grant|
      next unless grant.state == :held && grant.session == @session

      grant.sure, grant.tried = sure, nil if sure > grant.sure
      silent(grant) if grant.sure <= sent && reply["events"].empty?
    end
    mine = @grants.values.count { |it| it.session == @session && %i[held released].include?(it.state) }
    @excess = reply["grants"] > mine + @unfinished.size ? @excess || sent : nil
  end

  def happened(known, kind, key, owner, *parts)
    grant = @grants[[key, owner]] || @grants.values.find { |it| it.owner == owner && it.key.b == key.b }
    case kind
    when "granted"
      return @unfinished[[key, owner]] = ["LOCK.RELEASE", key, owner, "ALL", "TOKEN", parts[0]] unless grant
      return unless %i[asked queued].include?(grant.state)

      grant.granted(parts[0], 0.0, @session)
      known << grant
    when "ended" then ended(grant, Redis::CommandError.new(parts[0])) if grant
    when "lost" then grant&.raw_token == parts[0] ? lose(grant, parts[1]) : lost_early(parts[0])
    when "taken" then lose(grant, "taken over") if grant&.raw_token == parts[0] && parts[1] != @session
    end
  end

  # A loss that is reported before the reply that names the grant. It counts until no call is under way.
  def lost_early(token) = (@losses[token] = true if @calls.positive?)

  # A wait left the line.
  def ended(grant, error)
    return unless %i[asked queued].include?(grant.state)
    return grant.error = busy(grant) if %w[timeout cancelled].include?(error.message)
    return grant.state = :asked if meaning(error, ACQUIRE) == :passing

    grant.error = error(grant.key, error, ACQUIRE)
  end

  # The session has ended, or its connection. Only a try that began after `sure` tells silence: this process may have
  # been suspended.
  def failed(error, begun)
    @lock.synchronize do
      @failure = error
      error.message.start_with?("NOSESSION") ? @session = nil : shut(@polling) && @polling = nil
      refused = !@session && meaning(error, ACQUIRE) != :passing
      @grants.each_value do |grant|
        grant.error = error(grant.key, error, ACQUIRE) if refused && %i[asked queued].include?(grant.state)
        next unless grant.state == :held && grant.session && grant.sure <= begun

        grant.tried ||= begun
        silent(grant) if RedisLock.now >= grant.tried + @reply
      end
      @changed.broadcast
    end
  end

  def silent(grant)
    @unfinished[grant.name] = ["LOCK.RELEASE", grant.key, grant.owner, "ALL", "TOKEN", grant.raw_token]
    lose(grant, "the server was silent for a lease")
  end

  # Connections.

  # When the call was sent, and its reply, which comes within `wait` and the time of a reply.
  def call(words, wait = 0)
    redis = @lock.synchronize { (@calls += 1) && @idle.pop } || connect
    sent = RedisLock.now
    reply = wait.zero? ? redis.call(*words) : interruptible(redis, words, wait)
    kept = true
    [sent, reply]
  rescue *REPLY => e
    kept = !e.message.start_with?("READONLY", "MASTERDOWN", "UNBLOCKED") # a new one may find the new primary
    raise
  ensure
    @lock.synchronize do
      @losses.clear if (@calls -= 1).zero?
      kept && !@closed && @idle.size < 8 ? @idle << redis : shut(redis)
    end
  end

  def interruptible(redis, words, wait)
    Thread.handle_interrupt(Object => :immediate) { redis.send(:send_blocking_command, words, wait) }
  end

  def connect
    Redis.new(**@options, connect_timeout: @reply, read_timeout: @reply, write_timeout: @reply, reconnect_attempts: 0)
  end

  def shut(redis)
    redis&.close
    true
  rescue StandardError
    true
  end

  # RESP2 has a map as a flat array.
  def fields(reply) = reply.is_a?(Hash) ? reply : Hash[*reply]

  # Errors.

  # The meaning of an error for a call of this kind. redis-rb 5 reports a wrong password as a failed connection.
  def meaning(error, kind)
    is_reply = reply?(error) || error&.message&.match?(/\A(WRONGPASS|NOAUTH|NOPERM|ERR AUTH)/)
    is_reply ? MEANINGS.find { |begins, _| error.message.start_with?(begins) }[1][kind] : :passing
  end

  def reply?(error) = REPLY.any? { |it| error.is_a?(it) }

  def error(key, cause, kind)
    hint = ": is the module redis-lock loaded?" if cause&.message&.start_with?("ERR unknown")
    KINDS.fetch(meaning(cause, kind), Misuse).new("#{key}: #{cause&.message || "no answer"}#{hint}")
  end

  def busy(grant) = Busy.new("#{grant.key}: others hold the lock")

  def ms(seconds) = [(seconds * 1000).ceil, 1].max
end
