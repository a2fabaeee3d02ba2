MERGE INTO seats (seat, fence) KEY (seat) SELECT x, 0 FROM SYSTEM_RANGE(1, 40) WHERE x NOT IN (SELECT seat FROM seats);
