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

// flood opens ten thousand connections to a port that never answers, so that none is closed. The
// gateway must keep as many open as its limit permits ("held N") and, after they are closed, accept
// a new one ("and then answers"). The script checks how many were refused.
func flood() {
	// More than any box may have. Few goroutines open them, so that the box itself does not run out
	// of resources first.
	const all, workers = 10_000, 16
	addrs, err := net.LookupHost("b.example")
	if err != nil {
		report("flood", "b.example", err.Error())
		return
	}
	var mu sync.Mutex
	var held []net.Conn
	var wg sync.WaitGroup
	tickets := make(chan struct{}, all)
	for range all {
		tickets <- struct{}{}
	}
	close(tickets)
	for range workers {
		wg.Go(func() {
			for range tickets {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(addrs[0], mute), timeLimit)
				switch {
				case err == nil:
					mu.Lock()
					held = append(held, c)
					mu.Unlock()
				case errors.Is(err, syscall.ECONNREFUSED): // if the box itself runs out of descriptors or ports, the error is another one
					report("flood", "b.example", "")
				default:
					report("flood", "b.example", err.Error())
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("held %d\n", stillOpen(held))
	for _, c := range held {
		c.Close()
	}
	// The gateway may notice a moment later that a connection was closed.
	for deadline := time.Now().Add(timeLimit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if handshake("b.example", "b.example") != "" {
			fmt.Println("and then answers")
			return
		}
	}
}

// mute is the port of b.example that never answers.
const mute = "2222"

// stillOpen returns how many connections are still open. Some of those that seemed to be accepted
// may have been refused a moment later.
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

// timeout returns the text of err if it is a timeout, and "" otherwise.
func timeout(err error) string {
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return err.Error()
	}
	return ""
}

// slow opens connections on which it sends nothing, or half of a request. The gateway must close
// them within three times timeLimit.
func slow() {
	var wg sync.WaitGroup
	for _, c := range []struct{ kind, to, sends string }{
		{"slow", "a.example:443", ""}, {"slow", "b.example:443", ""}, {"framing", "a.example:80", "GET / HTTP/1.1\r\nHost: a.example\r\nX: "}, {"hello", "b.example:443", "\x16\x03\x01\x02\x00\x01"},
	} {
		wg.Go(func() {
			conn, err := net.Dial("tcp", c.to)
			if err != nil {
				report(c.kind, c.to, err.Error())
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, c.sends)
			_ = conn.SetDeadline(time.Now().Add(3 * timeLimit))
			_, err = io.Copy(io.Discard, conn)
			effect := ""
			if err != nil {
				effect = timeout(err)
			}
			report(c.kind, fmt.Sprintf("%s after %q", c.to, c.sends), effect)
		})
	}
	wg.Wait()
}

// hold reads an endless answer over a connection that the gateway passes through, until it is ended,
// for example by a change of the policy. It prints "holds" once it reads, and "ended" with the
// reason.
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

// carry keeps a request open that the gateway has given the secret's value, until it is ended.
// Meanwhile the script removes the secret. It prints what hold does.
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
