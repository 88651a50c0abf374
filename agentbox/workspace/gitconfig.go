package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// setting is one line of a git configuration. Key is in git's canonical form: section and name in
// lower case, what is between them as written.
type setting struct {
	key, value string
	bare       bool // written without a value, which means true
}

// leftBehind matches the keys a copy does not get: credentials and where to find them, what runs
// programs of the host, what leads to other files, and the signatures no box can make without a
// key. Keys are in canonical form. The last two are for tools that keep tokens in git's
// configuration, each under a name of its own (git-town.github-token): a key that only sounds like
// one is no loss.
var leftBehind = agentbox.Pattern(`^(?:` + strings.Join([]string{
	`credential\..*`, `http\.(.*\.)?(extraheader|cookiefile|proxyauthmethod|sslkey|sslcert|sslcertpasswordprotected|proxysslkey|proxysslcert|.*password.*)`,
	`include\..*`, `includeif\..*`, `sendemail\..*`, `imap\..*`, `gpg\..*`, `(commit|tag|push)\.gpgsign`, `user\.signingkey`, `uploadpack\..*hook`,
	`core\.(hookspath|sshcommand|fsmonitor|askpass|gitproxy|worktree|bare|alternaterefscommand|alternaterefsprefixes|ignorecase|precomposeunicode)`,
	`core\.(checkstat|trustctime)`, `receive\.denycurrentbranch`, `safe\..*`,
	`.*\.[^.]*(token|passw(or)?d|passphrase|secret|api-?key)[^.]*`, `.*\.[^.]*pass`,
}, "|") + `)$`)

// carried are the keys of the user's own configuration that decide what git says about this work
// tree, or who commits.
const carried = `^(user\.(name|email)|core\.(autocrlf|eol|safecrlf|excludesfile))$`

// fixed is what every copy gets. Its files have other inodes and times of change than the index
// remembers, and may have lost the fractions of their seconds on the way to a disk: git must
// compare what did survive, the second and the size. And it may be pushed to while its branch is
// checked out, as long as nothing in it is lost by that.
var fixed = []setting{
	{key: "core.bare", value: "false"},
	{key: "core.checkstat", value: "minimal"},
	{key: "core.trustctime", value: "false"},
	{key: "receive.denycurrentbranch", value: "updateInstead"},
}

// keepWorktree as the worktree of a target keeps what the original says, for submodules not checked
// out. A NUL is in no path, so it is none of a user's.
const keepWorktree = "\x00keep"

// config writes the configuration of the copy, and returns that of the original. It is written anew
// and not copied, so that nothing gets through that was not understood.
func (s *stager) config(ctx context.Context, repo Repo, to target) (local []setting, err error) {
	var own []setting
	g, gctx := errgroup.WithContext(ctx)
	// The user's settings go into submodules, too, but are asked for once.
	if repo == s.top {
		g.Go(func() (err error) { s.carry, err = carriedSettings(gctx, repo); return })
	}
	g.Go(func() (err error) { local, err = readConfig(gctx, filepath.Join(repo.CommonDir, "config")); return })
	worktreeFile := filepath.Join(repo.GitDir, "config.worktree")
	if exists(worktreeFile) {
		g.Go(func() (err error) { own, err = readConfig(gctx, worktreeFile); return })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// An untracked cache is bound to the machine and directory it was made in; unless the
	// repository wants one anyway, git is told to drop it, or it would complain at every status.
	carry := append([]setting{{key: "core.untrackedcache", value: "false"}}, without(s.carry, "core.excludesfile")...)
	// What the repository says of itself wins over what is the user's; fixed, which comes last,
	// over both.
	settings := append(missing(carry, local), sanitise(local)...)
	settings = append(settings, fixed...)
	switch to.worktree {
	case "":
	case keepWorktree:
		for _, kept := range local {
			if kept.key == "core.worktree" && !filepath.IsAbs(kept.value) {
				settings = append(settings, kept)
			}
		}
	default:
		settings = append(settings, setting{key: "core.worktree", value: to.worktree})
	}
	err = writeConfig(filepath.Join(to.git, "config"), settings)
	if err == nil && own != nil {
		err = writeConfig(filepath.Join(to.git, "config.worktree"), sanitise(own))
	}
	return append(local, own...), err
}

// maxConfig bounds a configuration file: a repository with a hundred thousand branches has one of
// this size.
const maxConfig = 64 << 20

// readConfig reads one file as git does, without what it includes. A file that is absent is no
// settings. The bytes are read by us and parsed by git, so that it is git's syntax and nobody's
// link that decides.
func readConfig(ctx context.Context, file string) ([]setting, error) {
	data, err := git.ReadPlain(file, maxConfig)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(file, err)
	}
	return parsedOnce.of(data, func() ([]setting, error) {
		// From the root, because inside a git directory git insists on the work tree that may be
		// gone.
		out, _, err := git.Run(ctx, git.Call{Dir: "/", Args: []string{"config", "--file", "-", "--no-includes", "--null", "--list"}, Stdin: bytes.NewReader(data)})
		if err != nil {
			return nil, explain(err, file)
		}
		return parseConfig(out), nil
	})
}

// parsedOnce remembers what git made of the configurations read last. A box's start reads the same
// one twice and its checkout's next box again, and a process for each is most of what that costs.
// mu guards bySum. Two callers that miss at once both ask git, which is only slower.
var parsedOnce = parsed{bySum: map[[sha256.Size]byte][]setting{}}

// maxParsed and maxParsedSize bound it.
const (
	maxParsed     = 64
	maxParsedSize = 64 << 10
)

// parsed remembers what a function made of some bytes, by their digest.
type parsed struct {
	mu    sync.Mutex
	bySum map[[sha256.Size]byte][]setting
}

// of gives the settings of data, from memory or by parse. Callers get a slice of their own.
func (p *parsed) of(data []byte, parse func() ([]setting, error)) ([]setting, error) {
	if len(data) > maxParsedSize {
		return parse()
	}
	sum := sha256.Sum256(data)
	p.mu.Lock()
	settings, ok := p.bySum[sum]
	p.mu.Unlock()
	if ok {
		return slices.Clone(settings), nil
	}
	settings, err := parse()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bySum) >= maxParsed {
		clear(p.bySum)
	}
	p.bySum[sum] = slices.Clone(settings)
	return settings, nil
}

// parseConfig reads what git config --null --list prints.
func parseConfig(out []byte) []setting {
	var settings []setting
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		key, value, ok := strings.Cut(string(entry), "\n")
		if key != "" {
			settings = append(settings, setting{key: key, value: value, bare: !ok})
		}
	}
	return settings
}

// carriedSettings asks git, because the user's configuration may depend on where the repository is.
// What the repository's own file includes from outside of it is not the user's word.
func carriedSettings(ctx context.Context, repo Repo) ([]setting, error) {
	out, err := ask(ctx, repo.Root, "config", "--includes", "--show-scope", "--show-origin", "--null", "--get-regexp", carried)
	var failed *git.Error
	if err != nil && !errors.As(err, &failed) { // none of the keys is set
		return nil, err
	}
	fields := strings.Split(string(out), "\x00")
	var settings []setting
	for i := 0; i+2 < len(fields); i += 3 {
		file, isFile := strings.CutPrefix(fields[i+1], "file:")
		path := absolute(file, repo.Root)
		local := fields[i] == "local" || fields[i] == "worktree"
		found := parseConfig([]byte(fields[i+2]))
		switch {
		case !local:
			settings = append(settings, found...)
		case isFile && (within(repo.Root, path) || within(repo.CommonDir, path)):
			settings = append(settings, without(found, "core.excludesfile")...) // looks.excludes judges that
		}
	}
	return settings, nil
}

// missing is those of the settings that have does not decide; of several for one key, the last one
// counts.
func missing(settings, have []setting) []setting {
	known := map[string]bool{}
	for _, h := range have {
		known[h.key] = true
	}
	var out []setting
	for i := len(settings) - 1; i >= 0; i-- {
		if !known[settings[i].key] {
			known[settings[i].key] = true
			out = append(out, settings[i])
		}
	}
	return out
}

// sanitise is the settings a copy may have: no credentials, no programs of the host, none of
// agentbox's own remotes. A url.BASE section whose BASE has a password goes with its name.
func sanitise(settings []setting) []setting {
	ours := map[string]bool{}
	for _, s := range settings {
		if name, ok := strings.CutSuffix(s.key, "."+markKey); ok {
			ours[name+"."] = true
		}
	}
	var out []setting
	for _, s := range settings {
		section := s.key[:strings.LastIndexByte(s.key, '.')+1]
		if leftBehind().MatchString(s.key) || ours[section] || strings.HasPrefix(section, "url.") && redact(section) != section {
			continue
		}
		s.key, s.value = redact(s.key), redact(s.value)
		out = append(out, s)
	}
	return out
}

// writeConfig writes settings in git's syntax, every value quoted.
func writeConfig(path string, settings []setting) error {
	if err := os.WriteFile(path, formatConfig(settings), 0o644); err != nil {
		return unwritable(path, err)
	}
	return nil
}

var (
	// As git-config(1) has them: escapes of a value, and of a subsection.
	quoteValue      = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
	quoteSubsection = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
)

// formatConfig is the text of a configuration with these settings in this order; neighbours of one
// section share its header. A key without a section is none.
func formatConfig(settings []setting) []byte {
	var b bytes.Buffer
	last := ""
	for _, s := range settings {
		first, end := strings.IndexByte(s.key, '.'), strings.LastIndexByte(s.key, '.')
		if first < 0 {
			continue
		}
		header := "[" + s.key[:first]
		if end > first {
			header += ` "` + quoteSubsection.Replace(s.key[first+1:end]) + `"`
		}
		if header += "]"; header != last {
			fmt.Fprintln(&b, header)
			last = header
		}
		if s.bare {
			fmt.Fprintf(&b, "\t%s\n", s.key[end+1:])
		} else {
			fmt.Fprintf(&b, "\t%s = \"%s\"\n", s.key[end+1:], quoteValue.Replace(s.value))
		}
	}
	return b.Bytes()
}
