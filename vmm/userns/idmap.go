// Package userns starts the first process of a machine that lives in Linux namespaces of its own, and
// decides which ids of this host its users have. It mounts nothing and knows no kind of machine.
package userns

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// Range maps a range of ids in a user namespace to ids outside of it: a line of
// /proc/PID/uid_map.
type Range struct{ Inside, Outside, Size int }

// Maps are the maps of a machine's user namespace. The box's user is the caller, who so owns what
// it writes in the workspace. All others, root too, are ids that own nothing on the host.
type Maps struct {
	UIDs, GIDs []Range
	Helpers    bool // written by the setuid programs newuidmap and newgidmap, for a caller that is not root
}

// guestIDs is how many ids a guest has: all that distributions use, up to nobody, 65534.
const guestIDs = 65536

// HostIDs returns the maps for this process. It only reads files. Fingerprints depend on its
// result, because the files of a saved runtime layer have these ids. If a program or a line in a
// file is missing, the error has code Missing and a hint with the command.
func HostIDs() (Maps, error) {
	if os.Geteuid() == 0 {
		uids, err1 := rootRange("/proc/self/uid_map")
		gids, err2 := rootRange("/proc/self/gid_map")
		return Maps{UIDs: mapAround(os.Geteuid(), uids), GIDs: mapAround(os.Getegid(), gids)}, cmp.Or(err1, err2)
	}
	who, err := user.Current()
	if err != nil {
		return Maps{}, err
	}
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return Maps{}, agentbox.Errorf(agentbox.Missing, "machines of a user who is not root need %s, which is not installed", program).
				WithHint("apt-get install uidmap")
		}
	}
	uids, err1 := subordinate("/etc/subuid", who)
	gids, err2 := subordinate("/etc/subgid", who)
	if err := errors.Join(err1, err2); err != nil {
		return Maps{}, err
	}
	return Maps{UIDs: mapAround(os.Geteuid(), uids), GIDs: mapAround(os.Getegid(), gids), Helpers: true}, nil
}

// ApartIDs is HostIDs for machines in which no id may be root of the host: if the caller is, its
// machines get a range of their own, in order.
func ApartIDs() (Maps, error) {
	if os.Geteuid() != 0 {
		return HostIDs()
	}
	uids, err1 := rootRange("/proc/self/uid_map")
	gids, err2 := rootRange("/proc/self/gid_map")
	return Maps{UIDs: []Range{uids}, GIDs: []Range{gids}}, cmp.Or(err1, err2)
}

// mapAround maps GuestUID to own, and the other ids to those of free, in order. If free is too
// small, the highest ids do not exist in the guest; packages use those below GuestUID.
func mapAround(own int, free Range) []Range {
	below := min(vmm.GuestUID, free.Size)
	maps := []Range{{0, free.Outside, below}, {vmm.GuestUID, own, 1}}
	if rest := min(guestIDs-vmm.GuestUID-1, free.Size-below); rest > 0 {
		maps = append(maps, Range{vmm.GuestUID + 1, free.Outside + below, rest})
	}
	return maps
}

// subordinate returns the ids that a file, /etc/subuid or /etc/subgid, gives to a user. Code
// Missing if there is no file, no line, or fewer than GuestUID ids.
func subordinate(file string, who *user.User) (Range, error) {
	f, err := os.Open(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Range{}, err
	}
	best := Range{}
	if err == nil {
		defer f.Close()
		best = largestRange(f, who)
	}
	if best.Size < vmm.GuestUID {
		return best, agentbox.Errorf(agentbox.Missing, "%s gives %s no ids for the users of a machine", file, who.Username).
			WithHint("as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s", who.Username)
	}
	return best, nil
}

// largestRange reads lines of the form name-or-id:first:count, and returns the largest range of the
// user. It skips malformed lines.
func largestRange(r io.Reader, who *user.User) Range {
	var best Range
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(f) != 3 || f[0] != who.Username && f[0] != who.Uid {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err1 == nil && err2 == nil && first > 0 && count > best.Size && first+count < 1<<32 {
			best = Range{0, first, count}
		}
	}
	return best
}

// rootBase is the first id for root's guests, far from users and their subordinate ids, which
// useradd allocates from 100000 on.
const rootBase = 1 << 30

// rootRange chooses ids for the guests of root, who may map any id of its user namespace. If that
// has few, as in a container, it takes the upper half, which the container's own programs hardly
// use. file is /proc/self/uid_map or gid_map.
func rootRange(file string) (Range, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Range{}, err
	}
	var best Range
	for line := range strings.Lines(string(b)) {
		var m Range
		if _, err := fmt.Sscan(line, &m.Inside, &m.Outside, &m.Size); err == nil && m.Size > best.Size {
			best = m
		}
	}
	if best.Inside+best.Size > rootBase+guestIDs {
		return Range{0, rootBase, guestIDs}, nil
	}
	size := min(guestIDs, best.Size/2)
	if size < vmm.GuestUID {
		return Range{}, agentbox.Errorf(agentbox.Missing, "this user namespace has too few ids for the users of a machine (%d)", best.Size).
			WithHint("run agentbox outside of the container, or give the container 65536 ids")
	}
	return Range{0, best.Inside + best.Size - size, size}, nil
}

// Apply writes the maps of a new launcher, which waits for them. Maps can be written only once.
func (m Maps) Apply(ctx context.Context, pid int) error {
	if m.Helpers {
		return errors.Join(runMapper(ctx, "newuidmap", pid, m.UIDs), runMapper(ctx, "newgidmap", pid, m.GIDs))
	}
	return errors.Join(writeMap(pid, "uid_map", m.UIDs), writeMap(pid, "gid_map", m.GIDs))
}

func writeMap(pid int, name string, ranges []Range) error {
	var text strings.Builder
	for _, r := range ranges {
		fmt.Fprintln(&text, r.Inside, r.Outside, r.Size)
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, name), []byte(text.String()), 0)
}

// runMapper runs one of the two helpers to write a map. Errors have code Missing and its output.
func runMapper(ctx context.Context, program string, pid int, ranges []Range) error {
	args := []string{strconv.Itoa(pid)}
	for _, r := range ranges {
		args = append(args, strconv.Itoa(r.Inside), strconv.Itoa(r.Outside), strconv.Itoa(r.Size))
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "%s: %w: %s", program, err, strings.TrimSpace(string(out))).
			WithHint("it must be installed setuid root, and /etc/subuid and /etc/subgid must have a line for you")
	}
	return nil
}
