// Package mesh is one machine's part in a team: its member list, its connections, who is here, and
// what everybody has.
//
// Files of its directory, besides those of mesh/roster:
//
//	settings.json   where to listen
//	addresses.json  where members were seen, so that they are found again after a restart
//	catalogues/     see mesh/catalogue
//
// Without a team nothing listens and nothing is sent. What it will not do: it moves no images, and
// knows nothing of boxes.
package mesh
