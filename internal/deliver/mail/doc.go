// Package mail makes one SMTP attempt of a job: one mail over a kept connection
// where there is one, with a result from the closed list of outcomes in package
// job. Attempts, gate, results and the guard of addresses are those of package
// deliver.
//
// # One slot, one mail
//
// A connection is dialled, encrypted and logged in ahead of the slot. The gate
// stands in the Write that carries MAIL FROM, below TLS; what follows of the
// mail passes freely. A connection that lay idle and was ended by the server is
// noticed right before that Write and replaced.
//
// # What the outcome says
//
// Nobody has a mail before the final dot: an attempt that is lost or out of
// time before it is unfinished, and may be tried again without harm. After it
// silence is ambiguous. Until all recipients are known to be accepted or refused
// for good nothing of the mail is sent, so a retry never reaches anybody twice:
// one recipient that is put off (4xx) puts off the whole mail.
//
// # The same mail each time
//
// Every attempt of a job sends the same bytes: Date is when the job was made,
// Message-ID and the MIME boundaries come from its id.
package mail
