// Command hostile asks for what a check does not get, and fails if it does not get it.
package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	var err error
	switch act, rest := os.Args[1], os.Args[2:]; act {
	case "memory":
		var all [][]byte
		for {
			b := make([]byte, 16<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b) //lint:ignore SA4010 it is to take memory
		}
	case "time":
		//lint:ignore SA5002 it is to take time
		for {
		}
	case "files":
		var all []*os.File
		for range 1000 {
			var f *os.File
			if f, err = os.Open("a"); err != nil {
				break
			}
			all = append(all, f)
		}
		fmt.Println(len(all), "open")
	case "read":
		for _, name := range rest {
			if _, err = os.ReadFile(name); err != nil {
				break
			}
		}
	case "write":
		err = os.WriteFile(rest[0], []byte("x"), 0o644)
	case "look":
		fmt.Println(len(os.Environ()), os.Environ(), time.Now().Year(), os.Args[0])
		_, err = net.Dial("tcp", "127.0.0.1:1")
	case "flood":
		for range 100000 {
			fmt.Println("a line \x1b[31m of output")
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}
