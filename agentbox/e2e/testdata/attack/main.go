// Command attack tries from inside of a box what must not work. Each attempt is a line: "refused
// KIND WHAT", KIND being what the log of the box should call it, or "LEFT KIND WHAT: ..." where
// something came of it. The names are those of the world that command outside makes.
package main

import (
	"fmt"
	"os"
)

var groups = map[string]func(){
	"names": names, "addresses": addresses, "redirects": redirects, "datagrams": datagrams, "servernames": serverNames, "framings": framings,
	"authorities": authorities, "secrets": secrets, "resolvers": resolvers, "labels": labels, "slow": slow, "flood": flood, "hold": hold, "use": use, "carry": carry,
}

func main() {
	for _, name := range os.Args[1:] {
		try, ok := groups[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "there is no group", name)
			os.Exit(2)
		}
		try()
	}
}

// tell says what came of an attempt; left is "" when it was refused.
func tell(kind, what, left string) {
	if left == "" {
		fmt.Printf("refused %s %q\n", kind, what)
		return
	}
	fmt.Printf("LEFT %s %q: %.300q\n", kind, what, left)
}
