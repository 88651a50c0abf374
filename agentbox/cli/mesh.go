package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
)

// meshCommand groups the verbs about the team. The daemon is the member; this program contains
// nothing of the mesh.
func (a *app) meshCommand() *cli.Command {
	return &cli.Command{
		Name: "mesh", Category: catHost, Usage: "the team: machines that share images, setup results and templates",
		Commands: []*cli.Command{
			a.meshInit(), a.meshInvite(), a.meshJoin(), a.meshPeers(), a.meshStatus(), a.meshTrust(), a.meshRevoke(), a.meshPrefetch(), a.meshLeave(),
		},
	}
}

// listenFlag is the address at which this machine listens for the team. "" is the configured one,
// which defaults to port 7946.
func listenFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "listen", Usage: "listen on this UDP `ADDRESS` (default: port 7946 on all addresses, or any free port if it is in use)", Destination: to}
}

// nameFlag is this machine's name in the team. Names are for people and need not be unique; PeerIDs
// identify machines.
func nameFlag(to *string) cli.Flag {
	host, _ := os.Hostname()
	return &cli.StringFlag{Name: "name", Usage: "other members see this machine as `NAME`", Value: host, Destination: to}
}

// meshInit is `mesh init`. `mesh status` also shows where the root key is. --json prints an
// api.MeshStatus; --quiet the PeerID.
func (a *app) meshInit() *cli.Command {
	var req api.MeshInitRequest
	return &cli.Command{
		Name: "init", Usage: "create a team with this machine as its first member",
		Description: "This machine keeps the team's root key (mesh/root.key in its home). Back it up: only the root key can add and remove admins.",
		Flags:       []cli.Flag{nameFlag(&req.Name), listenFlag(&req.Listen)},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.InitMesh, req, func(s api.MeshStatus) facts {
				return facts{value: s, ids: []string{s.Peer}, text: "this machine is a team of one; to add machines: agentbox mesh invite"}
			})
		},
	}
}

// meshInvite is `mesh invite`. It prints the token within the command to type on the other machine,
// and explains it on standard error. --json prints an api.MeshInvite; --quiet the token, which is a
// secret until it was used.
func (a *app) meshInvite() *cli.Command {
	var req api.MeshInviteRequest
	var builder, admin bool
	return &cli.Command{
		Name: "invite", Usage: "create a token with which one machine can join",
		Description: "A terminal also shows the token as a QR code. Anyone who has the token can use it, once: send it over a channel that you trust.",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Usage: "the token is valid for `TIME`", Value: time.Hour, Destination: &req.TTL},
			&cli.BoolFlag{Name: "builder", Usage: "let the other members use what the new machine builds", Destination: &builder},
			&cli.BoolFlag{Name: "admin", Usage: "let the new machine invite and revoke members", Destination: &admin},
			&cli.StringSliceFlag{Name: "address", Usage: "another `HOST:PORT` at which this machine can be reached", Destination: &req.Addresses},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// The invitation carries the roles, so the new member has them from the start.
			req.Roles = roleWords(builder, admin)
			i, err := call(ctx, a, api.InviteMesh, req)
			if err != nil {
				return err
			}
			if err := a.report(facts{value: i, ids: []string{i.Token}, text: "agentbox mesh join " + i.Token}); err != nil || a.json || a.quiet {
				return err
			}
			// The address is shown because a firewall or another network is the usual reason for a
			// failure.
			fmt.Fprintf(a.stderr, "run this on the other machine within %s; it will connect to %s\n", tookText(req.TTL), strings.Join(i.Addresses, ", "))
			if _, ok := a.outTerminal(); ok {
				// A QR code of upper-case letters only is smaller.
				qrterminal.GenerateHalfBlock(strings.ToUpper(i.Token), qrterminal.L, a.stdout)
			}
			return nil
		},
	}
}

// roleWords returns roles as the API expects them. An empty list means no roles, not "unchanged".
func roleWords(builder, admin bool) []string {
	out := []string{}
	if admin {
		out = append(out, "admin")
	}
	if builder {
		out = append(out, "builder")
	}
	return out
}

// meshJoin is `mesh join`. It returns when the machine is a member, or says why it cannot become
// one. --json prints an api.MeshStatus; --quiet the PeerID.
func (a *app) meshJoin() *cli.Command {
	var req api.MeshJoinRequest
	return &cli.Command{
		Name: "join", Usage: "join a team with a token", ArgsUsage: "TOKEN",
		Flags: []cli.Flag{nameFlag(&req.Name), listenFlag(&req.Listen)},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req.Token = cmd.Args().First()
			return callAndReport(ctx, a, api.JoinMesh, req, func(s api.MeshStatus) facts {
				return facts{value: s, ids: []string{s.Peer}, text: fmt.Sprintf("joined a team of %s as %s", agentbox.Plural(s.Members, "machine"), oneLine(s.Name))}
			})
		},
	}
}

// meshPeers is `mesh peers`. It omits former members unless asked for them, also with --json.
// --json prints a list of api.MeshPeer; --quiet the PeerIDs.
func (a *app) meshPeers() *cli.Command {
	var all bool
	return &cli.Command{
		Name: "peers", Usage: "list the machines of the team",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also list machines that left or were revoked", Destination: &all}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.ListPeers, api.None{}, func(list []api.MeshPeer) facts {
				if !all {
					list = slices.DeleteFunc(list, isFormerMember)
				}
				head := []string{"NAME", "PEER", "ROLES", "STATE", "SINCE", "LOAD", "FREE", "IMAGES", "SENT", "RECEIVED", "ADDRESS"}
				return listed(list, head, func(p api.MeshPeer) (string, []string) { return p.ID, peerRow(p) })
			})
		},
	}
}

// isFormerMember reports whether a machine is no longer a member, even if it still answers.
func isFormerMember(p api.MeshPeer) bool {
	return p.State == "revoked" || p.State == "left" || p.State == "expired"
}

// peerRow returns the row of a member. Name, load and free space are its own unverified claims;
// load and space are shown only while it is present.
func peerRow(p api.MeshPeer) []string {
	// For a machine that is not present, load and space would be out of date.
	since, load, free, address := "", "", "", ""
	if !p.Since.IsZero() {
		since = agoText(p.Since)
	}
	if p.State == "online" || p.State == "self" {
		load, free = fmt.Sprintf("%d%%", p.Load), bytesText(p.Free)
	}
	if len(p.Addresses) > 0 {
		address = p.Addresses[0]
	}
	return []string{
		oneLine(p.Name), p.ID[:12], strings.Join(p.Roles, ","), p.State, since, load, free, fmt.Sprint(p.Records["image"]), bytesText(p.Sent), bytesText(p.Received), address,
	}
}

// meshPrefetch is `mesh prefetch`. --json prints an api.Prefetched; --quiet the IDs of contexts.
func (a *app) meshPrefetch() *cli.Command {
	var req api.PrefetchRequest
	return &cli.Command{
		Name: "prefetch", Usage: "show or change what comes of others' boxes and tasks before you enter them", ArgsUsage: "[SIZE|off]",
		Description: "Of boxes and tasks that were shared with this machine, the image, the result of setup and the commit come while it is idle, not on\n" +
			"battery and not where the network is paid by the byte: at most SIZE, such as 10GiB. Nothing of it runs.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "now", Usage: "get it now, idle or not", Destination: &req.Now}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if word := cmd.Args().First(); word != "" {
				var limit int64
				if word != "off" {
					var err error
					if limit, err = config.ParseSize(word); err != nil {
						return agentbox.Errorf(agentbox.Invalid, "prefetch %s: %w", word, err).WithHint("agentbox mesh prefetch 10GiB; off for nothing")
					}
				}
				req.Limit = &limit
			}
			return callAndReport(ctx, a, api.Prefetch, req, prefetchFacts)
		},
	}
}

func prefetchFacts(p api.Prefetched) facts {
	f := listed(p.Contexts, []string{"MACHINE", "CONTEXT", "PROJECT", "CAME", "STATE"}, func(c api.PrefetchedContext) (string, []string) {
		return c.ID, []string{c.Machine, c.ID, c.Project, bytesText(c.Bytes), cmp.Or(c.Problem, "ready")}
	})
	f.value, f.text = p, fmt.Sprintf("%s of at most %s", bytesText(p.Bytes), bytesText(p.Limit))
	switch {
	case p.Limit == 0:
		f.text = "off: agentbox mesh prefetch SIZE begins"
	case len(p.Busy) > 0:
		f.text += "; it waits, as this machine is not idle: " + againstText(p.Busy[0])
	}
	return f
}

// meshStatus is `mesh status`. Without a team it says how to get one, which is no error. --json
// prints an api.MeshStatus; --quiet the PeerID of this machine.
func (a *app) meshStatus() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "show this machine's state in its team",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.ShowMesh, api.None{}, func(s api.MeshStatus) facts {
				return facts{value: s, ids: []string{s.Peer}, table: statusRows(s)}
			})
		},
	}
}

// statusRows returns the facts about this machine's part in its team, and the current transfers.
func statusRows(s api.MeshStatus) [][]string {
	rows := [][]string{{"peer", s.Peer}, {"state", s.State}}
	if s.Problem != "" {
		rows = append(rows, []string{"problem", oneLine(s.Problem)})
	}
	// Without a team, the other fields mean nothing.
	if s.Team.IsZero() {
		return append(rows, []string{"team", "none: agentbox mesh init creates one, agentbox mesh join TOKEN joins one"})
	}
	rows = append(rows,
		[]string{"team", s.Team.Short()},
		[]string{"name", oneLine(s.Name)},
		[]string{"roles", cmp.Or(strings.Join(s.Roles, ", "), "none: other members do not use what it builds")},
		[]string{"members", fmt.Sprintf("%d, of which %d others are present", s.Members, s.Online)},
		[]string{"listens", s.Listen},
		[]string{"reached at", strings.Join(s.Addresses, ", ")},
	)
	if s.Root {
		rows = append(rows, []string{"root key", "on this machine: back up mesh/root.key in its home"})
	}
	for _, m := range s.Transfers {
		rows = append(rows, movementRow(m))
	}
	return rows
}

func movementRow(m api.MeshTransfer) []string {
	what, who := cmp.Or(m.Name, m.Manifest.Short()), strings.Join(m.Peers, ", ")
	if !m.Receiving {
		return []string{"sending", what + " to " + who}
	}
	return []string{"receiving", fmt.Sprintf("%s, %d of %d pieces here, from %s", what, m.Present, m.Pieces, cmp.Or(who, "no peer at the moment"))}
}

// meshTrust is `mesh trust`: it replaces the roles of a member. Only admins may do this, and only
// the machine with the root key makes admins.
func (a *app) meshTrust() *cli.Command {
	var builder, admin bool
	return &cli.Command{
		Name: "trust", Usage: "replace the roles of a machine with the given ones; without flags, it has none", ArgsUsage: "PEER|NAME",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "builder", Usage: "let the other members use what it builds", Destination: &builder},
			&cli.BoolFlag{Name: "admin", Usage: "let it invite and revoke members", Destination: &admin},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req := api.MeshTrustRequest{Peer: cmd.Args().First(), Roles: roleWords(builder, admin)}
			return callAndReport(ctx, a, api.TrustPeer, req, func(p api.MeshPeer) facts {
				return facts{value: p, ids: []string{p.ID}, text: fmt.Sprintf("%s is a member with %s", oneLine(p.Name), rolesText(p.Roles))}
			})
		},
	}
}

// rolesText returns a member's roles as the end of a sentence.
func rolesText(roles []string) string {
	if len(roles) == 0 {
		return "no role"
	}
	return "the roles " + strings.Join(roles, ", ")
}

// meshRevoke is `mesh revoke`. It cannot be undone.
func (a *app) meshRevoke() *cli.Command {
	return &cli.Command{
		Name: "revoke", Usage: "remove a machine from the team permanently", ArgsUsage: "PEER|NAME",
		Description: "Its connections end within seconds, and the team drops what it published. It can return only with a new identity.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.RevokePeer, api.MeshPeerRef{Peer: cmd.Args().First()}, func(p api.MeshPeer) facts {
				return facts{value: p, ids: []string{p.ID}, text: fmt.Sprintf("revoked %s (%s)", oneLine(p.Name), p.ID[:12])}
			})
		},
	}
}

// meshLeave is `mesh leave`: it tells the members that are present, and forgets the team.
func (a *app) meshLeave() *cli.Command {
	return &cli.Command{
		Name: "leave", Usage: "leave the team, and delete its keys and member list",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.LeaveMesh, api.None{}, func(none api.None) facts { return facts{value: none, text: "left the team"} })
		},
	}
}
