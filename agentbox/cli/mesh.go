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
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// meshCommand groups the verbs about the team. The daemon is the member; this program contains
// nothing of the mesh.
func (a *app) meshCommand() *cli.Command {
	return &cli.Command{
		Name: "mesh", Category: catHost, Usage: "the team: machines that know each other and hand each other what they have",
		Commands: []*cli.Command{
			a.meshInit(), a.meshInvite(), a.meshJoin(), a.meshPeers(), a.meshStatus(), a.meshTrust(), a.meshRevoke(), a.meshLeave(),
		},
	}
}

// listenFlag is the address at which this machine listens for the team. "" is the configured one,
// which defaults to port 7946.
func listenFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "listen", Usage: "the UDP `ADDRESS` of this machine's part (default: port 7946 on all, or any port when that is taken)", Destination: to}
}

// nameFlag is this machine's name in the team. Names are for people and need not be unique; PeerIDs
// identify machines.
func nameFlag(to *string) cli.Flag {
	host, _ := os.Hostname()
	return &cli.StringFlag{Name: "name", Usage: "how the others see this machine", Value: host, Destination: to}
}

// meshInit is `mesh init`. `mesh status` also shows where the root key is. --json prints an
// api.MeshStatus; --quiet the PeerID.
func (a *app) meshInit() *cli.Command {
	var req api.MeshInitRequest
	return &cli.Command{
		Name: "init", Usage: "make a team of which this machine is the first member",
		Description: "This machine keeps the team's root key (mesh/root.key of its home): back it up. Only it can add and remove admins.",
		Flags:       []cli.Flag{nameFlag(&req.Name), listenFlag(&req.Listen)},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return tell(ctx, a, api.InitMesh, req, func(s api.MeshStatus) facts {
				return facts{value: s, ids: []string{s.Peer}, text: "this machine is a team of one; add others: agentbox mesh invite"}
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
		Name: "invite", Usage: "make a token with which one other machine can join, once",
		Description: "On a terminal the token is also shown as a QR code. Whoever has it can join: send it to one person, by a way you trust.",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Usage: "how long the token can be used", Value: time.Hour, Destination: &req.TTL},
			&cli.BoolFlag{Name: "builder", Usage: "the others use what the new machine builds", Destination: &builder},
			&cli.BoolFlag{Name: "admin", Usage: "the new machine may invite and revoke", Destination: &admin},
			&cli.StringSliceFlag{Name: "address", Usage: "another `HOST:PORT` that leads to this machine", Destination: &req.Addresses},
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
			fmt.Fprintf(a.stderr, "on the other machine, within %s; it asks for this one at %s\n", tookText(req.TTL), strings.Join(i.Addresses, ", "))
			if f, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
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
		Name: "join", Usage: "join the team that a token is from", ArgsUsage: "TOKEN",
		Flags: []cli.Flag{nameFlag(&req.Name), listenFlag(&req.Listen)},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req.Token = cmd.Args().First()
			return tell(ctx, a, api.JoinMesh, req, func(s api.MeshStatus) facts {
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
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also those that left or were revoked", Destination: &all}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			return tell(ctx, a, api.ListPeers, api.None{}, func(list []api.MeshPeer) facts {
				if !all {
					list = slices.DeleteFunc(list, former)
				}
				head := []string{"NAME", "PEER", "ROLES", "STATE", "SINCE", "LOAD", "FREE", "IMAGES", "SENT", "GOT", "ADDRESS"}
				return listed(list, head, func(p api.MeshPeer) (string, []string) { return p.ID, peerRow(p) })
			})
		},
	}
}

// former reports whether a machine is no longer a member, even if it still answers.
func former(p api.MeshPeer) bool {
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
	if p.State == "here" || p.State == "self" {
		load, free = fmt.Sprintf("%d%%", p.Load), bytesText(p.Free)
	}
	if len(p.Addresses) > 0 {
		address = p.Addresses[0]
	}
	return []string{
		oneLine(p.Name), p.ID[:12], strings.Join(p.Roles, ","), p.State, since, load, free, fmt.Sprint(p.Records["image"]), bytesText(p.Sent), bytesText(p.Received), address,
	}
}

// meshStatus is `mesh status`. Without a team it says how to get one, which is no error. --json
// prints an api.MeshStatus; --quiet the PeerID of this machine.
func (a *app) meshStatus() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "say how this machine takes part in its team",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return tell(ctx, a, api.ShowMesh, api.None{}, func(s api.MeshStatus) facts {
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
		return append(rows, []string{"team", "none: agentbox mesh init makes one, agentbox mesh join TOKEN joins one"})
	}
	rows = append(rows,
		[]string{"team", s.Team.Short()},
		[]string{"name", oneLine(s.Name)},
		[]string{"roles", cmp.Or(strings.Join(s.Roles, ", "), "none: what it builds is used by nobody else")},
		[]string{"members", fmt.Sprintf("%d, %d of the others here", s.Members, s.Here)},
		[]string{"listens", s.Listen},
		[]string{"reached at", strings.Join(s.Addresses, ", ")},
	)
	if s.Root {
		rows = append(rows, []string{"root key", "here: back up mesh/root.key of this home"})
	}
	for _, m := range s.Moving {
		rows = append(rows, movementRow(m))
	}
	return rows
}

// movementRow returns the row of a transfer.
func movementRow(m api.MeshMovement) []string {
	what, who := cmp.Or(m.Name, m.Manifest.Short()), strings.Join(m.Peers, ", ")
	if !m.Getting {
		return []string{"sending", what + " to " + who}
	}
	return []string{"getting", fmt.Sprintf("%s, %d of %d pieces here, from %s", what, m.Here, m.Pieces, cmp.Or(who, "nobody at the moment"))}
}

// meshTrust is `mesh trust`: it replaces the roles of a member. Only admins may do this, and only
// the machine with the root key makes admins.
func (a *app) meshTrust() *cli.Command {
	var builder, admin bool
	return &cli.Command{
		Name: "trust", Usage: "make a machine's roles those that are given, none without any", ArgsUsage: "PEER|NAME",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "builder", Usage: "the others use what it builds", Destination: &builder},
			&cli.BoolFlag{Name: "admin", Usage: "it may invite and revoke", Destination: &admin},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req := api.MeshTrustRequest{Peer: cmd.Args().First(), Roles: roleWords(builder, admin)}
			return tell(ctx, a, api.TrustPeer, req, func(p api.MeshPeer) facts {
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
		Name: "revoke", Usage: "take a machine off the team, everywhere and for good", ArgsUsage: "PEER|NAME",
		Description: "Its connections end within seconds, and what it published is forgotten. The machine can come back with a new identity only.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return tell(ctx, a, api.RevokePeer, api.MeshPeerRef{Peer: cmd.Args().First()}, func(p api.MeshPeer) facts {
				return facts{value: p, ids: []string{p.ID}, text: fmt.Sprintf("revoked %s (%s)", oneLine(p.Name), p.ID[:12])}
			})
		},
	}
}

// meshLeave is `mesh leave`: it tells the members that are present, and forgets the team. Boxes and
// images stay.
func (a *app) meshLeave() *cli.Command {
	return &cli.Command{
		Name: "leave", Usage: "leave the team, and forget it",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return tell(ctx, a, api.LeaveMesh, api.None{}, func(none api.None) facts { return facts{value: none, text: "left the team"} })
		},
	}
}
