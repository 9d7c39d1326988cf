// Package deliver makes one HTTP attempt of a job: bounded in time and size,
// on a kept connection where there is one, and with a result from the closed
// list of outcomes in package job.
//
// # One request, one write
//
// A request leaves at most once. Connections are [net/http.ClientConn]s in a
// pool of our own (package kept): nothing below Send dials again or repeats a
// request. Every request of HTTP/1.1 also has a body of its own (never
// http.NoBody), and none has a GetBody, so that no layer would take it for
// repeatable.
//
// # The gate
//
// The last check before a request stands in our net.Conn's Write, below TLS:
// nearer to the wire than anything net/http can be asked to do. It waits for
// the slot, calls [Attempt.Gate] and only then lets the first bytes go. The
// connection is at hand before that moment, so that dialling and a TLS
// handshake do not eat the slot's tolerance. A connection that came too late
// is kept for the next slot; otherwise a destination whose handshake takes
// longer than the horizon would never be reached.
//
// # HTTP/2
//
// By opt-in attempts hold seats in shared connections, as many as the other side
// takes streams. The gate stands before RoundTrip there, with the stream
// reserved: a Write may be another request's. What then waits too long for its turn
// to be written is taken back: of what leaves nothing is late, of what did not leave
// nothing is in doubt. TLS is ours, so that we see when
// the other side has said how many streams it takes, and who did not agree to
// HTTP/2 is spoken HTTP/1.1 to on the same connection. Pings find out dead ones.
//
// # What the outcome says
//
// As soon as the headers of an answer are complete its status decides, however
// its body ends: a 2xx is delivered, a 429 cools down. The body is read, within
// bounds of size and time, for the sake of the connection only. An answer that
// breaks off inside its headers is answer_truncated.
//
// Before the first byte left, an outcome is one that may be tried again without
// harm: not_sent when we ended it ourselves (slot gone, stop), a connection
// outcome otherwise. After it, silence is ambiguous. An idle connection that
// the destination closed in the meantime is noticed right before the write and
// replaced; if the close is still on its way the bytes may have left, and the
// outcome is connection_lost.
//
// # Other protocols
//
// A Line is a connection with the same gate and guard for what is not HTTP;
// package mail sends over it.
package deliver
