// Command attack attempts from inside a box what the policy forbids. Each attempt prints a line:
// "refused KIND WHAT", where KIND is the kind of its entry in the box's log, or "LEFT KIND WHAT:
// EFFECT" if it had an effect. The kind "none" is for attempts that need no entry. Host names are
// those of command outside.
//
// testdata/script/attacks.txtar runs it, compares the attempts of each kind with the box's log, and
// checks what has reached the outside. The arguments are names of groups. The exit code is 0 whatever
// the results, because the script decides; it is 2 for an unknown group.
//
// "secret" in a name, a path or a body marks it: the script searches for the word in what has
// reached the outside.
package main

import (
	"fmt"
	"os"
)

// groups are the groups of attempts by name. Each prints a line per attempt. hold and carry run
// until the connection is ended. use is allowed: it shows that the rest was refused for the right
// reason.
var groups = map[string]func(){
	"names": names, "addresses": addresses, "redirects": redirects, "datagrams": datagrams, "servernames": serverNames, "framings": framings,
	"authorities": authorities, "secrets": secrets, "resolvers": resolvers, "labels": labels, "slow": slow, "flood": flood, "hold": hold, "use": use, "carry": carry,
}

func main() {
	for _, name := range os.Args[1:] {
		attempts, ok := groups[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "there is no group", name)
			os.Exit(2)
		}
		attempts()
	}
}

// report prints the result of an attempt; effect is "" if it was refused. Every attempt must be
// reported exactly once, because the script compares their number with the box's log.
func report(kind, what, effect string) {
	if effect == "" {
		fmt.Printf("refused %s %q\n", kind, what)
		return
	}
	fmt.Printf("LEFT %s %q: %.300q\n", kind, what, effect)
}
