package workspace

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// droppedSettings matches the keys that a copy does not get, besides those that name programs
// (git.Setting.RunsProgram): credentials and where to find them, how to connect, keys that refer to
// other files, and signing, which a box cannot do without a key. Keys are in canonical form. The
// last line is for tools that keep tokens in git's configuration under names of their own
// (git-town.github-token); losing a key that merely looks like one does no harm.
var droppedSettings = agentbox.Pattern(`^(?:` + strings.Join([]string{
	`credential\..*`, `http\.(.*\.)?(extraheader|cookiefile|proxyauthmethod|sslkey|sslcert|sslcertpasswordprotected|proxysslkey|proxysslcert|.*password.*)`,
	`include\..*`, `includeif\..*`, `sendemail\..*`, `imap\..*`, `gpg\..*`, `(commit|tag|push)\.gpgsign`, `user\.signingkey`, `uploadpack\..*hook`, `remote\..*\.(receivepack|uploadpack)`,
	`core\.(hookspath|sshcommand|fsmonitor|askpass|gitproxy|worktree|bare|alternaterefscommand|alternaterefsprefixes|ignorecase|precomposeunicode)`,
	`core\.(checkstat|trustctime)`, `receive\.denycurrentbranch`, `safe\..*`,
	`.*\.[^.]*(token|passw(or)?d|passphrase|secret|api-?key)[^.]*`, `.*\.[^.]*pass`,
}, "|") + `)$`)

// copiedUserSettings matches the keys of the user's own configuration that affect what git reports
// about this work tree, or who commits. Those of Git LFS keep git in a box from committing files in
// place of their pointers.
const copiedUserSettings = `^(user\.(name|email)|core\.(autocrlf|eol|safecrlf|excludesfile)|filter\.lfs\.(clean|smudge|process|required))$`

// fixed is set in every copy. Inodes and change times of a copy differ from those in the index,
// and fractions of seconds may be lost on the way to a disk, so git must compare only seconds
// and sizes. A push may update the checked-out branch, as long as nothing is lost by it.
var fixed = []git.Setting{
	{Key: "core.bare", Value: "false"},
	{Key: "core.checkstat", Value: "minimal"},
	{Key: "core.trustctime", Value: "false"},
	{Key: "receive.denycurrentbranch", Value: "updateInstead"},
}

// keepWorktree, as target.worktree, keeps the original's setting, for submodules that are not
// checked out. No path contains a NUL.
const keepWorktree = "\x00keep"

// readConfigs reads the configuration that all work trees of a repository share, and that of one.
func readConfigs(repo Repo) (local, own []git.Setting, err error) {
	if local, err = readConfig(filepath.Join(repo.CommonDir, "config")); err == nil {
		own, err = readConfig(filepath.Join(repo.GitDir, "config.worktree"))
	}
	return local, own, err
}

// config writes the configuration of the copy. It writes a new file instead of copying, so that
// nothing passes that was not understood.
func (s *stager) config(ctx context.Context, repo Repo, to target, local, own []git.Setting) (err error) {
	// The user's settings apply to submodules too, but are read only once.
	if repo == s.top {
		if s.carry, err = carriedSettings(ctx, repo); err != nil {
			return err
		}
	}
	s.notePrograms(slices.Concat(local, own))
	// An untracked cache is bound to the machine and directory where it was made. Unless the
	// repository asks for one, git must drop it, or every git status would complain.
	carry := append([]git.Setting{{Key: "core.untrackedcache", Value: "false"}}, withoutSetting(s.carry, "core.excludesfile")...)
	// The repository's settings override the user's, and fixed, which comes last, overrides
	// both.
	settings := append(missing(carry, local), sanitise(local)...)
	settings = append(settings, fixed...)
	switch to.worktree {
	case "":
	case keepWorktree:
		for _, kept := range local {
			if kept.Key == "core.worktree" && !filepath.IsAbs(kept.Value) {
				settings = append(settings, kept)
			}
		}
	default:
		settings = append(settings, git.Setting{Key: "core.worktree", Value: to.worktree})
	}
	err = writeText(filepath.Join(to.git, "config"), git.FormatConfig(settings))
	if err == nil && own != nil {
		err = writeText(filepath.Join(to.git, "config.worktree"), git.FormatConfig(sanitise(own)))
	}
	return err
}

// notePrograms notes which settings are omitted because they name programs of the host, except those
// that have no meaning in a box: it gets no credentials and connects to nothing by itself.
func (s *stager) notePrograms(settings []git.Setting) {
	var keys []string
	for _, one := range settings {
		if one.RunsProgram() && !droppedSettings().MatchString(one.Key) && !slices.Contains(keys, one.Key) {
			keys = append(keys, one.Key)
		}
	}
	if len(keys) > 0 {
		s.note("git settings that name programs stay on the host: %s", strings.Join(keys[:min(len(keys), maxNoted)], ", "))
	}
}

// maxNoted bounds the settings that one note names.
const maxNoted = 10

// maxConfig bounds a configuration file, in bytes. A repository with a hundred thousand branches
// needs about this much.
const maxConfig = 64 << 20

// readConfig parses one file as git does, without its includes. A missing file has no settings.
// Links are not followed.
func readConfig(file string) ([]git.Setting, error) {
	data, err := git.ReadPlain(file, maxConfig)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(file, err)
	}
	return git.ParseConfig(string(data)), nil
}

func parseConfig(out string) []git.Setting {
	var settings []git.Setting
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		key, value, ok := strings.Cut(entry, "\n")
		if key != "" {
			settings = append(settings, git.Setting{Key: key, Value: value, Bare: !ok})
		}
	}
	return settings
}

// carriedSettings asks git for the user's settings, because they may depend on where the
// repository is. A file outside of the repository that the repository's own file includes does
// not count.
func carriedSettings(ctx context.Context, repo Repo) ([]git.Setting, error) {
	out, _, err := answer(ctx, repo.Root, "config", "--includes", "--show-scope", "--show-origin", "--null", "--get-regexp", copiedUserSettings)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(out, "\x00")
	var settings []git.Setting
	for i := 0; i+2 < len(fields); i += 3 {
		file, isFile := strings.CutPrefix(fields[i+1], "file:")
		path := absolute(file, repo.Root)
		local := fields[i] == "local" || fields[i] == "worktree"
		found := parseConfig(fields[i+2])
		switch {
		case !local:
			settings = append(settings, found...)
		case isFile && (within(repo.Root, path) || within(repo.CommonDir, path)):
			settings = append(settings, withoutSetting(found, "core.excludesfile")...) // viewSource.excludes checks it
		}
	}
	return settings, nil
}

// Settings returns what a copy that is no copy of a checkout's configuration needs: what every copy has,
// and the name and address with which commits are made in a checkout, its own, else the user's. What
// nobody has set is missing.
func Settings(ctx context.Context, author Repo) ([]git.Setting, error) {
	all, err := carriedSettings(ctx, author)
	who := slices.DeleteFunc(missing(all, nil), func(s git.Setting) bool { return !strings.HasPrefix(s.Key, "user.") })
	return slices.Concat(fixed, who), err
}

// missing are the settings whose keys are not in have, of each key the last value.
func missing(settings, have []git.Setting) []git.Setting {
	known := map[string]bool{}
	for _, h := range have {
		known[h.Key] = true
	}
	var out []git.Setting
	for i := len(settings) - 1; i >= 0; i-- {
		if !known[settings[i].Key] {
			known[settings[i].Key] = true
			out = append(out, settings[i])
		}
	}
	return out
}

// sanitise returns the settings that a copy may have: no credentials, no host programs and none
// of agentbox's own remotes. A url.BASE section whose BASE has a password is dropped entirely.
func sanitise(settings []git.Setting) []git.Setting {
	ours := map[string]bool{}
	for _, s := range settings {
		if name, ok := strings.CutSuffix(s.Key, "."+markKey); ok {
			ours[name+"."] = true
		}
	}
	var out []git.Setting
	for _, s := range settings {
		section := s.Key[:strings.LastIndexByte(s.Key, '.')+1]
		name, isExtension := extensionOf(s)
		if isExtension && !extensions[name] || s.RunsProgram() || droppedSettings().MatchString(s.Key) || ours[section] || strings.HasPrefix(section, "url.") && redact(section) != section {
			continue
		}
		s.Key, s.Value = redact(s.Key), redact(s.Value)
		// A proxy address needs no scheme: [user[:password]@]host[:port].
		if at := strings.LastIndexByte(s.Value, '@'); strings.HasSuffix(s.Key, ".proxy") && !strings.Contains(s.Value, "://") {
			s.Value = s.Value[at+1:]
		}
		out = append(out, s)
	}
	return out
}
