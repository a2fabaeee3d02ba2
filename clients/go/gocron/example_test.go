package gocron_test

import (
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	redislockgocron "github.com/redis-lock/redis-lock/clients/go/gocron"
	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
)

// The examples run without a server.
var locks = redislock.New(redislocktest.New().Client(), redislock.Options{Service: "reports"})

func ExampleLocker() {
	locker := redislockgocron.NewLocker(locks, redislockgocron.WithAtLeast(time.Second),
		redislockgocron.WithFailed(func(key string, err error) { fmt.Println(key, err) }))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan string, 1)
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(func() { ran <- "ran" }), gocron.WithName("report"))
	scheduler.Start()
	fmt.Println(<-ran, err)
	fmt.Println(scheduler.Shutdown(), locker.Close(background))
	// Output:
	// ran <nil>
	// <nil> <nil>
}

func ExampleElector() {
	elector := redislockgocron.NewElector(background, locks, "leader:reports")
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	for elector.IsLeader(background) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println(scheduler.Shutdown(), elector.Close(background))
	// Output: <nil> <nil>
}
