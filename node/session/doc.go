// Package session is what both ends of a stream have in common, whichever role each has: the description of
// a session, the messages by which a party registers and hears of it, the driver that runs a role, and what
// is reported of that. Package node says in which order messages go.
package session
