# A user clicks twice: the order is paid once, and the second request is told so.
require_relative "../../clients/ruby/redis_lock"

URL = ENV.fetch("REDIS_URL", "redis://127.0.0.1:6379")
LOCKS = RedisLock.new(url: URL, service: "shop")

def submit(order)
  redis = Redis.new(url: URL)
  LOCKS.lock("lock:order:#{order}") do # now or never
    next "paid before" if redis.get("order:#{order}")

    sleep 0.5
    redis.incr("payments")
    redis.set("order:#{order}", "paid")
    "paid"
  end
rescue RedisLock::Busy
  "in progress" # for example status 409
end

puts [42, 42].map { |order| Thread.new { submit(order) } }.map(&:value)
puts submit(42)
LOCKS.close
