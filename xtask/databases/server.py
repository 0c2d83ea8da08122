"""For `cargo xtask bench --databases`: `version URL` prints the version of the server behind a URL, and `fresh URL`
drops and creates the database that it names."""

import sys
from urllib.parse import urlsplit

import pymongo
import pymysql


class MongoDb:
    def __init__(self, url):
        self.client = pymongo.MongoClient(url)

    def version(self):
        return self.client.server_info()["version"]

    def fresh(self):
        # The first write to it creates it.
        self.client.drop_database(self.client.get_default_database().name)


class MySql:
    def __init__(self, url):
        at = urlsplit(url)
        self.database = at.path.removeprefix("/")
        self.connection = pymysql.connect(host=at.hostname, port=at.port, user=at.username, password=at.password)

    def ask(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()

    def version(self):
        return self.ask("select version()")[0].split("-")[0]

    def fresh(self):
        self.ask(f"drop database if exists `{self.database}`")
        self.ask(f"create database `{self.database}`")


verb, url = sys.argv[1:]
server = MongoDb(url) if url.startswith("mongodb://") else MySql(url)
print({"version": server.version, "fresh": server.fresh}[verb]() or "")
