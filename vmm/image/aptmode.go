package image

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"time"

	"agentbox/agentbox"
)

// bootstrapMode chooses how mmdebstrap gets the rights of root: it has them, it gets them in a user
// namespace with a range of user ids, or it fakes them (fakechroot), which works with fewer
// packages and comes last. If nothing works, an error of code Missing says why there is no user
// namespace.
func bootstrapMode(ctx context.Context) (string, error) {
	if os.Geteuid() == 0 {
		return "root", nil
	}
	why := unshareProblem(ctx)
	if why == "" {
		return "unshare", nil
	}
	_, noFake := exec.LookPath("fakeroot")
	if _, err := exec.LookPath("fakechroot"); err == nil && noFake == nil {
		return "fakechroot", nil
	}
	return "", agentbox.Errorf(agentbox.Missing, "cannot make an apt image as an ordinary user: %s", why).
		WithHint("`sudo apt-get install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`, or use an OCI image")
}

// unshareProblem returns why this user cannot have a user namespace with a range of ids, "" if it
// can. It tries to make one, because many different settings of a host can forbid it.
func unshareProblem(ctx context.Context) string {
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return "newuidmap is not installed"
	}
	me, err := user.Current()
	if err != nil {
		return "this user has no name"
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if !hasRange(file, me) {
			return me.Username + " has no range in " + file
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, "unshare", "--user", "true").Run(); err != nil {
		return "this host does not let users make user namespaces"
	}
	return ""
}

// hasRange tells whether a file such as /etc/subuid has a line for the user. mmdebstrap checks the
// size of the range.
func hasRange(file string, u *user.User) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if name, _, _ := strings.Cut(line, ":"); name == u.Username || name == u.Uid {
			return true
		}
	}
	return false
}
