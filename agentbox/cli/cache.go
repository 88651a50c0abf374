package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
)

// cacheCommand groups the verbs about the store. All of them ask the daemon, which has the store
// open; none reads its files.
func (a *app) cacheCommand() *cli.Command {
	return &cli.Command{
		Name: "cache", Category: catHost, Usage: "list, verify and limit the contents of the store",
		Commands: []*cli.Command{
			a.cacheLs(), a.cacheShow(), a.cacheVerify(), a.cacheGC(), a.cachePin(), a.cacheUnpin(), a.cacheShare(true), a.cacheShare(false), a.cacheRm(), a.cacheQuota(),
		},
	}
}

// cacheLs is `cache ls`. The last column is what people look for: why an entry is still there.
// --json prints a list of api.CacheEntry; --quiet the manifests, which every other verb here
// accepts.
func (a *app) cacheLs() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the contents of the store, and what keeps each entry",
		Description: "A new image enters the store a minute or two after it was built, or at once in a team. agentbox image ls shows it immediately.",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.ListCache, api.None{}, func(list []api.CacheEntry) facts {
				return listed(list, []string{"MANIFEST", "KIND", "SIZE", "STORED", "USED", "KEPT BY"}, func(e api.CacheEntry) (string, []string) {
					return e.Manifest.String(), []string{e.Manifest.Short(), e.Kind, bytesText(e.Size), bytesText(e.Stored), agoText(e.Used), keptBy(e)}
				})
			})
		},
	}
}

// keptBy returns what keeps an entry from being evicted, and whether people should look at it. It
// is cut to fit the screen; `cache show` has all of it.
func keptBy(e api.CacheEntry) string {
	var out []string
	if len(e.Alarms) > 0 {
		out = append(out, "ALARM: its key has another result")
	}
	// Alarms come first, because a person has to decide about them. Then come pins (a person's own
	// is just called a pin) and names.
	for _, p := range e.Pins {
		if strings.HasPrefix(p, "user:") {
			p = "pin"
		}
		out = append(out, p)
	}
	for _, n := range e.Names {
		out = append(out, strings.TrimSpace(agentbox.ShortName(n.Namespace+"/"+n.Key)+" "+n.Comment))
	}
	return cut(oneLine(strings.Join(out, ", ")), 80)
}

// refText is the help about how to name an entry. api.CacheRef has the exact rules.
const refText = "Name an entry by its digest, by its image's digest, by the key of its setup result (or by a unique prefix of one of these, at\n" +
	"least 4 digits), or by a name from agentbox cache ls. The name of an image means the newest image of that name."

// cacheShow is `cache show`. With --why it prints the inputs of a setup result's key, one per line,
// so that diff can compare two results. --json prints an api.CacheDetail, which always has the
// inputs; --quiet the manifest.
func (a *app) cacheShow() *cli.Command {
	var why bool
	return &cli.Command{
		Name: "show", Usage: "show details of one entry", ArgsUsage: "DIGEST|KEY|NAME|IMAGE",
		Description: refText,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "why", Usage: "list the inputs of a setup result's key", Destination: &why}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			e, err := call(ctx, a, api.ShowCache, api.CacheRef{Ref: cmd.Args().First()})
			if err != nil {
				return err
			}
			f := facts{value: e, ids: []string{e.Manifest.String()}, table: cacheFacts(e)}
			if why && !a.json && !a.quiet {
				if len(e.Ingredients) == 0 {
					return agentbox.Errorf(agentbox.Invalid, "%s is not a setup result, so it has no key to explain", e.Manifest.Short())
				}
				f.table, f.text = nil, whyText(e)
			}
			return a.report(f)
		},
	}
}

// whyText returns the inputs of a key, one per line, and whether the key had another result.
func whyText(e api.CacheDetail) string {
	lines := slices.Clone(e.Ingredients)
	for _, alarm := range e.Alarms {
		lines = append(lines, "alarm "+alarmText(alarm))
	}
	for i, line := range lines {
		lines[i] = oneLine(line)
	}
	return strings.Join(lines, "\n")
}

// cacheFacts returns the rows about one entry. A peer may have chosen its names, keys and pins.
func cacheFacts(e api.CacheDetail) [][]string {
	rows := [][]string{
		{"manifest", e.Manifest.String()},
		{"kind", strings.TrimSpace(e.Kind + " " + e.MediaType)},
		{"size", bytesText(e.Size)},
		{"stored", bytesText(e.Stored) + " written for it"},
		{"here", fmt.Sprintf("%d of %s", e.Present, agentbox.Plural(e.Chunks, "chunk"))},
		{"created", agoText(e.Created) + " ago"},
		{"used", agoText(e.Used) + " ago, " + agentbox.Plural(e.Uses, "time")},
	}
	if !e.Parent.IsZero() {
		rows = append(rows, []string{"parent", e.Parent.String()})
	}
	for _, n := range e.Names {
		text := fmt.Sprintf("%s/%s by %.16s, %s", n.Namespace, n.Key, n.Producer, n.Scope)
		if !n.Expires.IsZero() {
			text += ", until " + n.Expires.Format("2006-01-02 15:04")
		}
		rows = append(rows, []string{"name", oneLine(text)})
	}
	for _, p := range e.Pins {
		rows = append(rows, []string{"pin", oneLine(p)})
	}
	for _, alarm := range e.Alarms {
		rows = append(rows, []string{"alarm", oneLine(alarmText(alarm))})
	}
	return rows
}

// alarmText says that one key had two results, so the key lacks something that setup depends on.
func alarmText(a api.CacheAlarm) string {
	return fmt.Sprintf("%s has another result too, %s by %.16s of %s, which is not used", agentbox.ShortName(a.Name), a.Manifest.Short(), a.Producer, a.Created.Local().Format("2006-01-02 15:04"))
}

// cacheVerify is `cache verify`. It exits with 1 if damage remains, also with --json. Missing parts
// of a lazy image are not damage. --json prints an api.CacheVerifyReport.
func (a *app) cacheVerify() *cli.Command {
	var req api.CacheVerifyRequest
	return &cli.Command{
		Name: "verify", Usage: "read and hash everything, and replace what is damaged",
		Description: "Damaged pieces are set aside and fetched again from the remotes that images were pulled from or exported to.\nThe exit code is 1 if damage remains.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "rebuild", Usage: "also restore entries that the index has lost", Destination: &req.Rebuild},
			&cli.StringFlag{Name: "from", Usage: "also fetch from this `REMOTE`: a directory that agentbox image export filled, or its URL", Destination: &req.From},
		},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			// The daemon's current directory is not ours.
			if req.From, err = remoteOf(req.From); err != nil {
				return err
			}
			r, err := call(ctx, a, api.VerifyCache, req)
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(r); err != nil {
					return err
				}
			} else {
				a.printVerified(r)
			}
			// This comes after all output, in either form.
			if len(r.Damaged) > 0 {
				return exit(1)
			}
			return nil
		},
	}
}

// printVerified prints a line for each problem, and a count of what was damaged, repaired and lost.
func (a *app) printVerified(r api.CacheVerifyReport) {
	// Remaining damage comes first, with the file and offset to look at on the disk.
	for _, d := range r.Damaged {
		fmt.Fprintf(a.stdout, "damaged  %s  %s at %d: %s\n", d.Digest.Short(), d.File, d.Offset, oneLine(d.Reason))
	}
	for _, m := range r.Missing {
		// Without its manifest, the number of missing chunks is unknown.
		if m.Chunks < 0 {
			fmt.Fprintf(a.stdout, "missing  %s  its manifest\n", m.Manifest.Short())
		} else {
			fmt.Fprintf(a.stdout, "missing  %s  %s\n", m.Manifest.Short(), agentbox.Plural(m.Chunks, "chunk"))
		}
	}
	fmt.Fprintf(a.stdout, "%s, %s, %d damaged, %d repaired, %s lost, in %s\n",
		agentbox.Plural(r.Chunks, "chunk"), bytesText(r.Bytes), len(r.Damaged), r.Repaired, agentbox.PluralOf(int(r.Lost), "index entry", "index entries"), tookText(r.Took))
}

// cacheGC is `cache gc`. If something unexpectedly stays, it says what keeps it. --json prints an
// api.CacheGCReport; --quiet the names.
func (a *app) cacheGC() *cli.Command {
	var req api.CacheGCRequest
	return &cli.Command{
		Name: "gc", Usage: "remove entries that nothing needs",
		Description: "Removes expired names, then entries above the quota, then chunks that no entry needs. Keeps what is younger than ten minutes.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be removed, and why, but remove nothing", Destination: &req.DryRun},
			&cli.BoolFlag{Name: "all", Usage: "remove everything that no name, pin or box keeps, not only what is above the quota", Destination: &req.All},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.CollectCache, req, func(r api.CacheGCReport) facts {
				f := removedFacts(r.Items, r.Freed, req.DryRun)
				f.value = r
				if r.Recent > 0 {
					f.text += fmt.Sprintf("\n%d more stay because they are younger than ten minutes", r.Recent)
				}
				if r.OverQuota > 0 {
					f.text += fmt.Sprintf("\n%s above the quota stay: images, names and pins keep them (agentbox cache ls)", bytesText(r.OverQuota))
				}
				return f
			})
		},
	}
}

// cachePin is `cache pin`: it keeps an entry from being evicted until cacheUnpin.
func (a *app) cachePin() *cli.Command {
	return entryVerb(a, "pin", "keep an entry until it is unpinned", "", "pinned", api.PinCache, namedEntry)
}

// cacheUnpin is `cache unpin`. Without a pin it changes nothing.
func (a *app) cacheUnpin() *cli.Command {
	return entryVerb(a, "unpin", "remove the pin of an entry", "", "unpinned", api.UnpinCache, namedEntry)
}

// cacheShare is `cache share` or, if share is false, `cache unshare`.
func (a *app) cacheShare(share bool) *cli.Command {
	name, usage, done := "share", "let the machines of your team fetch an entry from here", "shared"
	if !share {
		name, usage, done = "unshare", "stop offering an entry to the machines of your team", "not shared"
	}
	return entryVerb(a, name, usage, "\nImages without include: and setup results are shared unless you unshare them. Anything else is not shared unless you share it.\nA machine keeps what it has already fetched.",
		done, api.ShareCache, func(entry string) api.CacheShareRequest { return api.CacheShareRequest{Ref: entry, Share: share} })
}

// cacheRm is `cache rm`: it removes a setup result. Images are removed by `image rm`, because boxes
// may be running from them.
func (a *app) cacheRm() *cli.Command {
	cmd := entryVerb(a, "rm", "remove a setup result; setup runs again when it is needed",
		"\nBoxes that use it keep it. This also clears an alarm about its key. To remove an image, use agentbox image rm.", "removed", api.RemoveCache, namedEntry)
	cmd.ArgsUsage = "DIGEST|KEY|NAME"
	return cmd
}

// namedEntry is the request of calls that need only the entry.
func namedEntry(entry string) api.CacheRef { return api.CacheRef{Ref: entry} }

// entryVerb returns a verb that does one thing to one entry and reports it. --json prints the
// resulting api.CacheEntry; --quiet its manifest. more is added to the help, done is the report.
func entryVerb[Req any](a *app, name, usage, more, done string, e api.Endpoint[Req, api.CacheEntry], request func(entry string) Req) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "DIGEST|KEY|NAME|IMAGE", Description: refText + more,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, e, request(cmd.Args().First()), func(entry api.CacheEntry) facts {
				id := entry.Manifest.String()
				return facts{value: entry, ids: []string{id}, text: done + " " + id}
			})
		},
	}
}

// cacheQuota is `cache quota`. Without arguments it only shows. --json prints an api.CacheUsage.
func (a *app) cacheQuota() *cli.Command {
	return &cli.Command{
		Name: "quota", Usage: "show or change how much space the store may use", ArgsUsage: "[SIZE] [KIND=SIZE...]",
		Description: "SIZE is written as 40GiB; 0 means no quota. KIND is image, cache, workspace, snapshot or artifact.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req, err := quotaRequest(cmd.Args().Slice())
			if err != nil {
				return err
			}
			u, err := call(ctx, a, api.CacheQuota, req)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(u)
			}
			return a.table(quotaRows(u))
		},
	}
}

// quotaRequest parses SIZE for the whole store and KIND=SIZE for one kind. What is not named stays
// as it is. The store knows which kinds exist. A bad size is Invalid, with an example.
func quotaRequest(args []string) (api.CacheQuotaRequest, error) {
	req := api.CacheQuotaRequest{Kinds: map[string]int64{}}
	for _, arg := range args {
		// A size with a name before it is for one kind; without a name it is for the whole store.
		kind, size, of := strings.Cut(arg, "=")
		if !of {
			kind, size = "", arg
		}
		n := int64(0)
		if size != "0" {
			var err error
			if n, err = config.ParseSize(size); err != nil {
				return req, agentbox.Errorf(agentbox.Invalid, "quota %s: %w", arg, err).WithHint("agentbox cache quota 40GiB image=20GiB; 0 means no quota")
			}
		}
		if of {
			req.Kinds[kind] = n
		} else {
			req.Total = &n
		}
	}
	return req, nil
}

// quotaRows returns a row for every kind that takes space or has a quota.
func quotaRows(u api.CacheUsage) [][]string {
	rows := [][]string{{"", "STORED", "QUOTA"}, {"all", bytesText(u.Bytes), quotaText(u.Quota)}}
	// A kind may take space without a quota, or have a quota and take no space yet.
	kinds := slices.Concat(slices.Collect(maps.Keys(u.Kinds)), slices.Collect(maps.Keys(u.KindQuotas)))
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		rows = append(rows, []string{kind, bytesText(u.Kinds[kind]), quotaText(u.KindQuotas[kind])})
	}
	return append(rows, []string{"free on the disk", bytesText(u.Free), ""})
}

// quotaText returns a quota as text; 0 is none.
func quotaText(n int64) string {
	if n == 0 {
		return "none"
	}
	return bytesText(n)
}
