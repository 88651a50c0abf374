// Command load calls `agentbox serve` at the URL of its first argument as 200 programs at once, which
// run 1,000 commands in the box of the checkout that is its second, and says how many were not as they
// should be. It waits when it is told that it asks too often, as every client has to.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

const clients, each = 200, 5

func main() {
	url, dir, token := os.Args[1], os.Args[2], os.Getenv("TOKEN")
	first := client.New(url, token)
	box, err := first.Up(context.Background(), api.UpRequest{Directory: dir}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	var failed atomic.Int32
	var work sync.WaitGroup
	for i := range clients {
		work.Go(func() {
			c := client.New(url, token) // a connection of its own
			defer c.Close()
			for k := range each {
				if err := once(c, box.Name, fmt.Sprint(i, " ", k)); err != nil && failed.Add(1) < 5 {
					fmt.Fprintln(os.Stderr, "load:", err)
				}
			}
		})
	}
	work.Wait()
	fmt.Printf("%d commands of %d clients, %d failed\n", clients*each, clients, failed.Load())
}

func once(c *client.Client, box, text string) error {
	for {
		r, err := c.Run(context.Background(), api.RunRequest{BoxRef: api.BoxRef{Box: box}, Argv: []string{"echo", text}})
		if agentbox.CodeOf(err) == agentbox.Busy {
			time.Sleep(time.Second)
			continue
		}
		if err == nil && r.Stdout != text+"\n" {
			err = fmt.Errorf("%q instead of %q", r.Stdout, text)
		}
		return err
	}
}
