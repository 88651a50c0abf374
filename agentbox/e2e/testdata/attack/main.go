// Command attack tries from inside of a box what must not work. Each attempt is a line: "refused
// KIND WHAT", KIND being what the log of the box should call it, or "LEFT KIND WHAT: ..." where
// something came of it. The names are those of the world that command outside makes.
//
// testdata/script/attacks.txtar runs it, counts the attempts of each kind in the box's log, and
// looks at what has reached the world. Arguments are names of groups. It ends with 0 whatever came
// of the attempts: the script judges.
package main

import (
	"fmt"
	"os"
)

// groups are what can be tried, by the name that scripts give: each prints its attempts, one line
// for each. hold and carry go on until somebody ends them; use is what is allowed, to show that the
// rest was refused for itself.
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

// tell says what came of an attempt; left is "" when it was refused. A script counts the lines of
// each kind in the box's log, so every attempt must be told.
func tell(kind, what, left string) {
	if left == "" {
		fmt.Printf("refused %s %q\n", kind, what)
		return
	}
	fmt.Printf("LEFT %s %q: %.300q\n", kind, what, left)
}
