// Command attack attempts from inside a box what must not work. Each attempt prints a line:
// "refused KIND WHAT", where KIND is the kind of entry in the box's log, or "LEFT KIND WHAT: ..."
// if it had an effect. Host names are those of command outside.
//
// testdata/script/attacks.txtar runs it, counts the attempts of each kind in the box's log, and
// checks what has reached the outside. Arguments are names of groups. The exit code is 0 whatever
// the results; the script decides.
package main

import (
	"fmt"
	"os"
)

// groups are the groups of attempts by name. Each prints a line for each of its attempts. hold and
// carry run until something ends them. use is allowed, which shows that the rest was refused for
// the right reason.
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

// tell prints the result of an attempt; left is "" if it was refused. A script counts the entries
// of each kind in the box's log, so every attempt must be printed.
func tell(kind, what, left string) {
	if left == "" {
		fmt.Printf("refused %s %q\n", kind, what)
		return
	}
	fmt.Printf("LEFT %s %q: %.300q\n", kind, what, left)
}
