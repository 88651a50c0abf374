// Package egress decides what boxes may reach: it composes the policy of each out of what the user,
// the organisation and the approved repository say, puts changes of it in force in running boxes,
// and keeps secrets and where they may be sent. It enforces nothing itself: the box's supervisor
// does.
package egress
