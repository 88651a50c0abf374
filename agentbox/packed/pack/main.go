// Command pack compresses a program for embedding: pack PROGRAM OUT VERSION writes OUT.zst and
// OUT.json. The build runs it; it is not a part of agentbox.
package main

import (
	"fmt"
	"os"

	"agentbox/agentbox/packed"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pack PROGRAM OUT VERSION")
		os.Exit(2)
	}
	if err := packed.Pack(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}
