// Package mirror answers for the package repositories of the outside world in
// tests: the vendors' (repo.mongodb.org, pgp.mongodb.com, repo.percona.com,
// download.docker.com), under their own host names, and the distribution's.
//
// What goes in: this module's stand-in server (test/mongod), the stand-in
// programs of ./standin, the files of ./files, and the host's own apt
// sources, from which the Debian packages of the distribution come. What
// comes out: signed apt and yum repositories in a cache folder, and an HTTP
// and HTTPS server in front of them with a certificate authority of its own,
// which records every request and can be told to fail.
//
// The trees have the vendors' layout and the packages their names, versions,
// dependencies, users, paths and units, so that a script written for the real
// repositories works unchanged, and one that does not check signatures,
// mistakes a path or a flag fails here as it would there. The programs inside
// are stand-ins and say so.
//
// It does not resolve names: whoever uses it makes the names of Hosts point
// to the server and puts RootFiles into the machines.
package mirror
