package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Ten thousand connections that are held. Some are carried, and when they are closed the next one is, too.
func flood() {
	const all, workers = 10_000, 16
	var mu sync.Mutex
	var held []net.Conn
	var refused atomic.Int64
	var wg sync.WaitGroup
	turns := make(chan struct{}, all)
	for range all {
		turns <- struct{}{}
	}
	close(turns)
	for range workers {
		wg.Go(func() {
			for range turns {
				c, err := net.DialTimeout("tcp", "b.example:443", patience)
				if err != nil {
					refused.Add(1)
					tell("flood", "b.example", timeout(err))
					continue
				}
				mu.Lock()
				held = append(held, c)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Printf("held %d\n", stillOpen(held))
	for _, c := range held {
		c.Close()
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if handshake("b.example", "b.example") != "" {
			fmt.Println("and then answers")
			return
		}
	}
}

// stillOpen tells how many of them are: on a slow machine the first ones have been let go, for saying nothing, while the last ones came.
func stillOpen(all []net.Conn) int64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		wg.Go(func() {
			if _, err := c.Read(make([]byte, 1)); timeout(err) != "" {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// timeout is an error for which somebody waited.
func timeout(err error) string {
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return err.Error()
	}
	return ""
}

// Clients that say nothing, or half of it.
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

// A stream that goes on until somebody ends it.
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
