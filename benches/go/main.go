// Contenders for locks on one server. Arguments: the server's port, and the way of locking (client,
// commands, redsync).
//
// The line "open contenders locks" connects, makes the locks free and is answered "ready". Each line
// "run seconds" then is a turn of the contest, answered by a line of JSON. So whoever drives several
// such programs can let them take short turns, and can measure the server around each.
//
// With quorum or quorum-quick as the first argument it is a holder of locks on several servers instead.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && (os.Args[1] == "quorum" || os.Args[1] == "quorum-quick") {
		hold(os.Args[1] == "quorum-quick", os.Args[2:])
		return
	}
	if len(os.Args) != 3 || ways[os.Args[2]] == nil {
		log.Fatal("usage: contenders port client|commands|redsync")
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func serve(port, name string) error {
	var open *contest
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var contenders, locks int
		var seconds float64
		line := input.Text()
		if strings.HasPrefix(line, "open") {
			if _, err := fmt.Sscanf(line, "open %d %d", &contenders, &locks); err != nil {
				return err
			}
			if open != nil {
				open.way.close()
			}
			var err error
			if open, err = prepare(port, name, contenders, locks); err != nil {
				return err
			}
			fmt.Println("ready")
			continue
		}
		if _, err := fmt.Sscanf(line, "run %g", &seconds); err != nil {
			return err
		}
		outcome := open.turn(time.Duration(seconds * float64(time.Second)))
		if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
			return err
		}
	}
	return nil
}
