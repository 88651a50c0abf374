// Command probe is all there is in the image of the boot test: what a user's process does, good and
// bad.
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// main does what its first argument says, and prints what the test wants to know. It must need
// nothing: there is no library and no shell in that image.
func main() {
	switch os.Args[1] {
	case "random":
		b := make([]byte, 16)
		rand.Read(b)
		fmt.Printf("%x\n", b)
	case "facts":
		host, _ := os.Hostname()
		id, _ := os.ReadFile("/etc/machine-id")
		dir, _ := os.Getwd()
		fmt.Println(os.Getuid(), host, strings.TrimSpace(string(id)), dir, time.Now().Unix())
	case "hog": // takes memory until it dies
		var all [][]byte
		for {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b) //lint:ignore SA4010 it is to take memory
		}
	case "forks": // starts processes until it may not
		for n := 0; ; n++ {
			if err := exec.Command("/probe", "sleep").Start(); err != nil {
				fmt.Println(err)
				return
			}
		}
	case "sleep":
		time.Sleep(time.Hour)
	case "count": // counts to a file, for ever
		for n := 0; ; n++ {
			os.WriteFile("/tmp/count", fmt.Append(nil, n), 0o644)
			time.Sleep(5 * time.Millisecond)
		}
	case "cat":
		b, _ := os.ReadFile(os.Args[2])
		os.Stdout.Write(b)
	case "attribute": // of a file, by its name
		b := make([]byte, 64)
		n, err := syscall.Getxattr(os.Args[2], os.Args[3], b)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q\n", b[:n])
	case "owner":
		var st syscall.Stat_t
		if err := syscall.Lstat(os.Args[2], &st); err != nil {
			fmt.Println(err)
		}
		fmt.Println(st.Uid)
	case "exists":
		if _, err := os.Lstat(os.Args[2]); err != nil {
			fmt.Println("no")
		}
	case "mkdir": // with a file in it that nobody else may read
		if err := os.Mkdir(os.Args[2], 0o700); err != nil {
			fmt.Println(err)
		}
		if err := os.WriteFile(os.Args[2]+"/file", nil, 0o600); err != nil {
			fmt.Println(err)
		}
	case "shutdown":
		syscall.Kill(1, syscall.SIGTERM)
	}
}
