package rueidis_test

import (
	"fmt"

	"github.com/redis/rueidis"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	redislockrueidis "github.com/redis-lock/redis-lock/clients/go/rueidis"
)

func ExampleClient() {
	option := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}
	shop, err := rueidis.NewClient(option)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shop.Close()
	client, err := redislockrueidis.Client(shop, option)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks := redislock.New(client, redislock.Options{Service: "orders"})
	defer locks.Close(background)
	if grant, err := locks.Acquire(background, "lock:orders:42"); err == nil {
		defer grant.Release(background)
	}
}
