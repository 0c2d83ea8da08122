"""Prints the version of the server behind a URL, for `cargo xtask bench --databases`: URL."""

import sys
from urllib.parse import urlsplit

import pymongo
import pymysql


def of_mongodb(url):
    with pymongo.MongoClient(url) as client:
        return client.server_info()["version"]


def of_mysql(url):
    at = urlsplit(url)
    with pymysql.connect(host=at.hostname, port=at.port, user=at.username, password=at.password) as connection:
        with connection.cursor() as cursor:
            cursor.execute("select version()")
            return cursor.fetchone()[0].split("-")[0]


url = sys.argv[1]
print(of_mongodb(url) if url.startswith("mongodb://") else of_mysql(url))
