package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// Ten thousand connections to a port where nobody says anything, so that none is let go. As many as
// there may be are carried, and when they are closed the next one is, too. The script wants some
// refused and tells how many must be: see there.
func flood() {
	// More than any box may have, made by few goroutines, so that the box itself is not what gives
	// out.
	const all, workers = 10_000, 16
	addrs, err := net.LookupHost("b.example")
	if err != nil {
		tell("flood", "b.example", err.Error())
		return
	}
	var mu sync.Mutex
	var held []net.Conn
	var wg sync.WaitGroup
	turns := make(chan struct{}, all)
	for range all {
		turns <- struct{}{}
	}
	close(turns)
	for range workers {
		wg.Go(func() {
			for range turns {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(addrs[0], mute), patience)
				switch {
				case err == nil:
					mu.Lock()
					held = append(held, c)
					mu.Unlock()
				case errors.Is(err, syscall.ECONNREFUSED): // what the box itself may refuse, descriptors or ports, is another error
					tell("flood", "b.example", "")
				default:
					tell("flood", "b.example", err.Error())
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("held %d\n", stillOpen(held))
	for _, c := range held {
		c.Close()
	}
	// What was closed is counted off when the gate has seen it, which may be a moment later.
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if handshake("b.example", "b.example") != "" {
			fmt.Println("and then answers")
			return
		}
	}
}

// mute is the port of b.example where nobody says anything.
const mute = "2222"

// stillOpen tells how many of them are: one that was refused at the last moment may have been taken
// for carried.
func stillOpen(all []net.Conn) int {
	n := 0
	soon := time.Now().Add(5 * time.Second)
	for _, c := range all {
		_ = c.SetReadDeadline(soon)
		if _, err := c.Read(make([]byte, 1)); timeout(err) != "" {
			n++
		}
	}
	return n
}

// timeout is an error for which somebody waited.
func timeout(err error) string {
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return err.Error()
	}
	return ""
}

// Clients that say nothing, or half of it. What says nothing for three times patience is left:
// those who keep the gate must have let go of it by then.
func slow() {
	var wg sync.WaitGroup
	for _, c := range []struct{ kind, to, says string }{
		{"slow", "a.example:443", ""}, {"slow", "b.example:443", ""}, {"framing", "a.example:80", "GET / HTTP/1.1\r\nHost: a.example\r\nX: "}, {"hello", "b.example:443", "\x16\x03\x01\x02\x00\x01"},
	} {
		wg.Go(func() {
			conn, err := net.Dial("tcp", c.to)
			if err != nil {
				tell(c.kind, c.to, err.Error())
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, c.says)
			_ = conn.SetDeadline(time.Now().Add(3 * patience))
			_, err = io.Copy(io.Discard, conn)
			left := ""
			if err != nil {
				left = timeout(err)
			}
			tell(c.kind, fmt.Sprintf("%s after %q", c.to, c.says), left)
		})
	}
	wg.Wait()
}

// A stream that goes on until somebody ends it. It is for what ends a connection that is under way,
// such as a policy that changes. "holds" says that it is, and "ended" how it went.
func hold() {
	c, err := open("b.example", "b.example")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = c.SetDeadline(time.Time{})
	_, _ = io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: b.example\r\n\r\n")
	r := bufio.NewReader(c)
	if _, err := http.ReadResponse(r, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holds")
	_, err = io.Copy(io.Discard, r)
	fmt.Println("ended", err)
}

// A request that carries the secret, until somebody ends it. The script removes the secret
// meanwhile.
func carry() {
	res, err := ask("https://a.example/allowed/stream", "Bearer "+os.Getenv("TOKEN"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println("holds", res.Status)
	_, err = io.Copy(io.Discard, res.Body)
	fmt.Println("ended", err)
}
